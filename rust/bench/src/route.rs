//! Asks a NameServer for routes, and reads them.

use serde_json::Value;

use super::exchange::{Answer, Exchange};
use super::{BenchError, Load};
use mq_format::codes::{GET_ROUTEINFO_BY_TOPIC, REQUEST_CODE_NOT_SUPPORTED};
use mq_format::fastjson;
use mq_format::message::TEMPLATE_TOPIC;
use mq_format::remoting::{Head, Serialize};

pub(super) const TOPIC_NOT_EXIST: i32 = 17;
/// Number of queues that a client requests for a topic created in this way.
pub(super) const NEW_TOPIC_QUEUES: i32 = 4;
const MASTER_ID: &str = "0";
/// Queues of a run, of all topics and brokers.
const QUEUES_MAX: usize = 2_000_000;

const READABLE: i64 = 4;
const WRITABLE: i64 = 2;

/// A queue of one of the run's topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueAt {
    /// The topic's number, see `Load::topic_name`.
    pub topic: u32,
    pub id: i32,
}

/// A master and its usable queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broker {
    pub address: String,
    pub queues: Vec<QueueAt>,
    /// The topic does not exist yet: its first message creates it.
    pub is_template: bool,
}

/// The use of the queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Sending; one topic may be left to the broker to create.
    Write,
    /// Sending into topics that have to exist before.
    WriteExisting,
    Read,
}

/// A connection to the first NameServer of the list that answers.
pub(super) fn namesrv(load: &Load) -> Result<Exchange, BenchError> {
    let mut last = BenchError::NoNamesrv;
    let addresses = load.namesrv.split([';', ',']).map(str::trim);
    for address in addresses.filter(|address| !address.is_empty()) {
        match Exchange::connect(address, load) {
            Ok(exchange) => return Ok(exchange),
            Err(BenchError::Io { address, cause }) => last = BenchError::Namesrv { address, cause },
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The routes of all topics, as answered.
pub(super) fn ask(namesrv: &mut Exchange, load: &Load) -> Result<Vec<Answer>, BenchError> {
    namesrv.call_all(load.topics, |index, opaque, out| {
        let topic = load.topic_name(index as u32);
        let fields = [("topic", topic.as_str().into())];
        let head = Head::request(GET_ROUTEINFO_BY_TOPIC, opaque, Serialize::Json);
        load.encode(&head, &fields, b"", out);
    })
}

/// The brokers that create an unknown topic at its first message.
pub(super) fn template(namesrv: &mut Exchange, load: &Load) -> Result<Vec<Broker>, BenchError> {
    let fields = [("topic", TEMPLATE_TOPIC.into())];
    let answer = namesrv.call(load, GET_ROUTEINFO_BY_TOPIC, &fields)?;
    let mut found = Vec::new();
    add(
        &mut found,
        0,
        (&namesrv.address, load),
        (Purpose::Write, answer),
    )?;
    for broker in &mut found {
        broker.is_template = true;
        broker.queues.truncate(NEW_TOPIC_QUEUES as usize);
    }
    Ok(found)
}

/// Adds the queues of one topic's route.
pub(super) fn add(
    found: &mut Vec<Broker>,
    topic: u32,
    (namesrv, load): (&str, &Load),
    (purpose, answer): (Purpose, Answer),
) -> Result<(), BenchError> {
    let answer = known(answer, load, topic, namesrv)?;
    let masters = parse(&answer.body, purpose).map_err(|cause| BenchError::Wire {
        address: namesrv.to_owned(),
        cause,
    })?;
    if masters.is_empty() {
        return Err(BenchError::NoQueue {
            topic: load.topic_name(topic),
            purpose: if purpose == Purpose::Read {
                "readable"
            } else {
                "writable"
            },
            namesrv: namesrv.to_owned(),
        });
    }
    for (address, queues) in masters {
        let address = load.address_map.get(&address).cloned().unwrap_or(address);
        let place = found.iter().position(|broker| broker.address == address);
        let place = place.unwrap_or_else(|| {
            found.push(Broker {
                address,
                queues: Vec::new(),
                is_template: false,
            });
            found.len() - 1
        });
        let held: usize = found.iter().map(|broker| broker.queues.len()).sum();
        if held + queues as usize > QUEUES_MAX {
            return Err(BenchError::Setting {
                name: "queues of all topics",
                value: (held + queues as usize).to_string(),
                min: "1".to_owned(),
                max: QUEUES_MAX.to_string(),
            });
        }
        let queues = (0..queues).map(|id| QueueAt { topic, id });
        found[place].queues.extend(queues);
    }
    Ok(())
}

/// The route, if the answer has one.
fn known(answer: Answer, load: &Load, topic: u32, namesrv: &str) -> Result<Answer, BenchError> {
    match answer.code {
        TOPIC_NOT_EXIST => Err(BenchError::NoTopic {
            topic: load.topic_name(topic),
            namesrv: namesrv.to_owned(),
        }),
        REQUEST_CODE_NOT_SUPPORTED => Err(BenchError::WrongDoor {
            address: namesrv.to_owned(),
        }),
        _ => answer.accepted(namesrv),
    }
}

/// Each master's address and its number of queues.
fn parse(body: &[u8], purpose: Purpose) -> Result<Vec<(String, i32)>, String> {
    let strict = fastjson::to_strict(&String::from_utf8_lossy(body)).map_err(|e| e.to_string())?;
    let route: Value = serde_json::from_str(&strict).map_err(|error| error.to_string())?;
    let (needed, queues_field) = match purpose {
        Purpose::Write | Purpose::WriteExisting => (WRITABLE, "writeQueueNums"),
        Purpose::Read => (READABLE, "readQueueNums"),
    };
    let array = |name: &str| {
        route[name]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
    };
    let mut masters = Vec::new();
    for queue_data in array("queueDatas") {
        let perm = queue_data["perm"].as_i64().unwrap_or(0);
        let queues = queue_data[queues_field].as_i64().unwrap_or(0);
        let broker = array("brokerDatas")
            .iter()
            .find(|b| b["brokerName"] == queue_data["brokerName"]);
        let master = broker.and_then(|broker| broker["brokerAddrs"][MASTER_ID].as_str());
        if let (true, Some(address), Ok(queues @ 1..)) =
            (perm & needed != 0, master, i32::try_from(queues))
        {
            masters.push((address.to_owned(), queues));
        }
    }
    Ok(masters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_masters_with_the_right_perm_count() {
        let body = br#"{"brokerDatas":[{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"a"},
            {"brokerAddrs":{"1":"h:3"},"brokerName":"b"},
            {"brokerAddrs":{"0":"h:4"},"brokerName":"c"}],
            "queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":8,"writeQueueNums":5},
            {"brokerName":"b","perm":6,"readQueueNums":1,"writeQueueNums":1},
            {"brokerName":"c","perm":4,"readQueueNums":3,"writeQueueNums":3}]}"#;
        let master = |address: &str, queues| (address.to_owned(), queues);
        assert_eq!(parse(body, Purpose::Write), Ok(vec![master("h:1", 5)]));
        let readable = vec![master("h:1", 8), master("h:4", 3)];
        assert_eq!(parse(body, Purpose::Read), Ok(readable));
    }
}
