//! Creates the topics of a run as a client does: on the brokers of the template's route.

use std::time::{Duration, Instant};

use super::exchange::{Answer, Exchange};
use super::route::{self, NEW_TOPIC_QUEUES, TOPIC_NOT_EXIST};
use super::{BenchError, Load};
use mq_format::message::TEMPLATE_TOPIC;
use mq_format::remoting::{Head, Serialize};

const UPDATE_AND_CREATE_TOPIC: i32 = 17;
const PERM_READ_WRITE: i32 = 6;
/// Interval between two checks whether the NameServer knows the new topics.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// Topics still unknown after this time are created again, one after another. If a broker registers
/// two topics at the same time with the same version, a NameServer accepts only the first.
const CREATE_AGAIN: Duration = Duration::from_secs(1);

/// Creates every topic whose route is unknown; returns how long each request took, and the
/// routes of all topics, as soon as the NameServer knows them.
pub(super) fn create(
    namesrv: &mut Exchange,
    load: &Load,
    routes: &[Answer],
) -> Result<(Vec<Duration>, Vec<Answer>), BenchError> {
    let mut creator = Creator::connect(namesrv, load)?;
    let took = creator.create(&unknown(load, routes))?;
    let (mut known, mut changed_at) = (0, Instant::now());
    loop {
        let answers = route::ask(namesrv, load)?;
        let missing = unknown(load, &answers);
        let now_known = answers.len() - missing.len();
        if now_known > known {
            (known, changed_at) = (now_known, Instant::now());
        }
        // The caller that needs a missing route reports the error.
        if missing.is_empty() || changed_at.elapsed() >= load.timeout() {
            return Ok((took, answers));
        }
        if changed_at.elapsed() >= CREATE_AGAIN {
            for topic in missing {
                creator.create(&[topic])?;
            }
        }
        std::thread::sleep(ASK_AGAIN);
    }
}

fn unknown(load: &Load, routes: &[Answer]) -> Vec<String> {
    (0..)
        .zip(routes)
        .filter(|(_, answer)| answer.code == TOPIC_NOT_EXIST)
        .map(|(number, _)| load.topic_name(number))
        .collect()
}

/// Connections to the brokers that create topics.
struct Creator<'a> {
    load: &'a Load,
    brokers: Vec<Exchange>,
}

impl<'a> Creator<'a> {
    fn connect(namesrv: &mut Exchange, load: &'a Load) -> Result<Self, BenchError> {
        let brokers = route::template(namesrv, load)?;
        let connect = |broker: route::Broker| Exchange::to_broker(&broker.address, load);
        Ok(Self {
            load,
            brokers: brokers.into_iter().map(connect).collect::<Result<_, _>>()?,
        })
    }

    /// Creates the topics on every broker.
    fn create(&mut self, topics: &[String]) -> Result<Vec<Duration>, BenchError> {
        let queues = match self.load.queues {
            0 => NEW_TOPIC_QUEUES,
            queues => queues,
        };
        let encode = |index: usize, opaque, out: &mut Vec<u8>| {
            let fields = [
                ("topic", topics[index].as_str().into()),
                ("defaultTopic", TEMPLATE_TOPIC.into()),
                ("readQueueNums", queues.into()),
                ("writeQueueNums", queues.into()),
                ("perm", PERM_READ_WRITE.into()),
                ("topicFilterType", "SINGLE_TAG".into()),
                ("topicSysFlag", 0.into()),
                ("order", false.into()),
            ];
            let head = Head::request(UPDATE_AND_CREATE_TOPIC, opaque, Serialize::Json);
            self.load.encode(&head, &fields, b"", out);
        };
        let mut took = Vec::new();
        for broker in &mut self.brokers {
            for answer in broker.call_all(topics.len(), encode)? {
                took.push(answer.accepted(&broker.address)?.took);
            }
        }
        Ok(took)
    }
}
