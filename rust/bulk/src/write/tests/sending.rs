//! A writer against brokers with scripted replies.

use std::collections::HashMap;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mq_format::remoting::{FieldValue, Frame, Head};
use parking_lot::Mutex;
use tokio::runtime::Runtime;

use super::super::plan::Plan;
use super::super::rows::{Numbers, Rows};
use super::super::task::Receipt;
use super::super::topics::{Queue, Routes};
use super::super::writer::Writer;
use super::super::{Why, WriteError};
use super::columns::{Column, numbers};
use super::golden::{items, plan};
use mq_client::settings::PoolSettings;

const DEADLINE: Duration = Duration::from_secs(30);

/// A send that a broker received: code, topic, queue, and the bodies.
#[derive(Debug, Clone, PartialEq)]
struct Got {
    code: i32,
    topic: String,
    queue: i32,
    bodies: Vec<String>,
}

type Answer = dyn Fn(usize, &Got) -> Option<i32> + Send + Sync;

/// A broker. Its reply to the nth send is a code; without one it closes the connection.
struct Broker {
    address: String,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Broker {
    fn new(answer: impl Fn(usize, &Got) -> Option<i32> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let got = Arc::new(Mutex::new(Vec::new()));
        let (answer, kept): (Arc<Answer>, _) = (Arc::new(answer), got.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, kept) = (answer.clone(), kept.clone());
                std::thread::spawn(move || serve(stream, &*answer, &kept));
            }
        });
        Self { address, got }
    }

    fn bodies(&self) -> Vec<String> {
        self.got
            .lock()
            .iter()
            .flat_map(|got| got.bodies.clone())
            .collect()
    }
}

fn serve(mut stream: TcpStream, answer: &Answer, kept: &Mutex<Vec<Got>>) {
    let mut offsets = HashMap::<(String, i32), i64>::new();
    while let Some(frame) = next_frame(&mut stream) {
        let request = Frame::decode(&frame).unwrap();
        let bodies = match request.code {
            320 => items(request.body).into_iter().map(|item| item.1).collect(),
            _ => vec![request.body.to_vec()],
        };
        let text = |body| String::from_utf8(body).unwrap();
        let got = Got {
            code: request.code,
            topic: request.ext.get("b").unwrap().to_owned(),
            queue: request.ext.get("e").unwrap().parse().unwrap(),
            bodies: bodies.into_iter().map(text).collect(),
        };
        let mut all = kept.lock();
        let number = all.len();
        all.push(got.clone());
        drop(all);
        let Some(code) = answer(number, &got) else {
            return;
        };
        let next = offsets.entry((got.topic, got.queue)).or_default();
        let fields: [(&str, FieldValue<'_>); 1] = [("queueOffset", (*next).into())];
        *next += got.bodies.len() as i64;
        let head = Head::reply(request.reply_to(), code, Some("said so"));
        let mut reply = Vec::new();
        head.encode(&fields, b"", &mut reply);
        stream.write_all(&reply).unwrap();
    }
}

fn next_frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut frame = length.to_vec();
    frame.resize(4 + u32::from_be_bytes(length) as usize, 0);
    stream.read_exact(&mut frame[4..]).ok()?;
    Some(frame)
}

/// Two queues of each broker, the same for every topic.
#[derive(Default)]
struct Fixed {
    queues: Vec<Queue>,
    asked: Vec<(String, bool)>,
}

impl Fixed {
    fn of(brokers: &[&Broker]) -> Self {
        let queue = |(number, broker): (usize, &&Broker)| {
            [0, 1].map(|id| Queue {
                broker: format!("broker-{number}").into(),
                address: broker.address.as_str().into(),
                id,
            })
        };
        Self {
            queues: brokers.iter().enumerate().flat_map(queue).collect(),
            asked: Vec::new(),
        }
    }
}

impl Routes for Fixed {
    fn queues(
        &mut self,
        topic: &str,
        is_again: bool,
    ) -> Result<Vec<Queue>, Arc<dyn Error + Send + Sync>> {
        self.asked.push((topic.to_owned(), is_again));
        if topic == "Missing" {
            let error: Box<dyn Error + Send + Sync> = "no such topic".into();
            return Err(error.into());
        }
        Ok(self.queues.clone())
    }
}

struct Rig {
    writer: Writer,
    routes: Fixed,
    _runtime: Runtime,
}

impl Rig {
    fn new(plan: Plan, brokers: &[&Broker]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime.handle().clone();
        Self {
            writer: Writer::new(handle, PoolSettings::default(), None, plan),
            routes: Fixed::of(brokers),
            _runtime: runtime,
        }
    }

    fn write(&mut self, rows: &Rows<'_>) -> Result<Vec<Receipt>, WriteError> {
        let mut next = 0;
        while next < rows.len {
            next = self.writer.add(rows, next, &mut self.routes)?;
            while !self.writer.step(&mut self.routes, DEADLINE, false)? {}
        }
        self.writer.close();
        while !self.writer.step(&mut self.routes, DEADLINE, true)? {}
        Ok(self.writer.take_receipts())
    }
}

fn numbered(count: usize) -> Column {
    Column::of((0..count).map(|row| Some(row.to_string())))
}

#[test]
fn every_row_is_sent_once_and_has_a_receipt() {
    let broker = Broker::new(|_, _| Some(0));
    let mut rig = Rig::new(plan(), &[&broker]);
    let bodies = numbered(10_000);
    let receipts = rig.write(&bodies.rows()).unwrap();
    let mut sent: Vec<usize> = broker
        .bodies()
        .iter()
        .map(|body| body.parse().unwrap())
        .collect();
    sent.sort_unstable();
    assert!(sent.into_iter().eq(0..10_000));
    let stored: u64 = receipts
        .iter()
        .flat_map(|one| &one.rows)
        .map(|run| run.count)
        .sum();
    assert_eq!(stored, 10_000);
    let first = &receipts[0];
    assert_eq!((first.rows[0].first, first.first_offset), (0, 0));
    let progress = rig.writer.progress();
    assert_eq!(
        (progress.rows, progress.stored, progress.first_missing),
        (10_000, 10_000, 10_000)
    );
    assert_eq!(rig.routes.asked, [("WireTopic".to_owned(), false)]);
}

#[test]
fn messages_of_a_key_stay_in_order_when_brokers_fail() {
    let broker = Broker::new(|number, _| match number % 3 {
        0 => Some(0),
        1 => Some(2), // SYSTEM_BUSY
        _ => None,
    });
    let mut rig = Rig::new(plan(), &[&broker]);
    let bodies = numbered(9000);
    let keys = Column::of((0..9000).map(|row| Some(["one", "two", "three"][row % 3])));
    let rows = Rows {
        order_key: Some(keys.texts()),
        ..bodies.rows()
    };
    rig.write(&rows).unwrap();
    let mut last = HashMap::new();
    let mut queues = HashMap::new();
    for got in broker.got.lock().iter() {
        for body in &got.bodies {
            let row: usize = body.parse().unwrap();
            assert_eq!(*queues.entry(row % 3).or_insert(got.queue), got.queue);
            let seen = last.entry(row % 3).or_insert(row % 3);
            assert!(row <= *seen + 3, "{row} after {seen}");
            *seen = row.max(*seen);
        }
    }
    assert!(last.values().all(|row| *row >= 8997));
}

#[test]
fn a_send_that_one_broker_refuses_goes_to_another() {
    let (good, bad) = (Broker::new(|_, _| Some(0)), Broker::new(|_, _| Some(14)));
    let mut rig = Rig::new(plan(), &[&bad, &good]);
    rig.write(&numbered(3000).rows()).unwrap();
    let mut sent: Vec<usize> = good
        .bodies()
        .iter()
        .map(|body| body.parse().unwrap())
        .collect();
    sent.sort_unstable();
    assert!(sent.into_iter().eq(0..3000));
    assert!(rig.routes.asked.contains(&("WireTopic".to_owned(), true)));
}

#[test]
fn a_failure_says_what_is_stored() {
    let broker = Broker::new(|number, _| Some(if number == 2 { 13 } else { 0 }));
    let mut rig = Rig::new(plan(), &[&broker]);
    let error = rig.write(&numbered(5000).rows()).unwrap_err();
    let WriteError::Send {
        broker: name, why, ..
    } = error
    else {
        panic!("{error}");
    };
    let refused = Why::Refused {
        code: 13,
        remark: "said so".to_owned(),
    };
    assert_eq!((name.as_str(), why), ("broker-0", refused));
    rig.writer.settle(DEADLINE);
    let progress = rig.writer.progress();
    let failed = broker.got.lock()[2].bodies.clone();
    assert_eq!(progress.first_missing.to_string(), failed[0]);
    let sent: usize = broker.got.lock().iter().map(|got| got.bodies.len()).sum();
    assert_eq!(progress.stored as usize, sent - failed.len());
}

#[test]
fn an_outage_longer_than_the_budget_ends_the_write() {
    let broker = Broker::new(|_, _| Some(14));
    let brief = Plan {
        retry_timeout: Duration::from_millis(300),
        ..plan()
    };
    let mut rig = Rig::new(brief, &[&broker]);
    let error = rig.write(&numbered(1).rows()).unwrap_err();
    assert!(error.to_string().contains("code 14: said so"), "{error}");
    assert_eq!(broker.got.lock().len(), 3);
}

#[test]
fn delayed_messages_and_topics_have_their_own_sends() {
    let broker = Broker::new(|_, _| Some(0));
    let mut rig = Rig::new(plan(), &[&broker]);
    let bodies = numbered(300);
    let topics = Column::of((0..300).map(|row| match row % 100 {
        99 => None,
        98 => Some("%RETRY%group".to_owned()),
        number => Some(format!("T{number}")),
    }));
    let levels: Vec<i32> = (0..300).map(|row| i32::from(row == 5)).collect();
    let levels = numbers(&levels);
    let rows = Rows {
        topic: Some(topics.texts()),
        delay_level: Some(Numbers::new(None, &levels, (0, 300)).unwrap()),
        ..bodies.rows()
    };
    rig.write(&rows).unwrap();
    let got = broker.got.lock();
    assert_eq!(broker_bodies(&got, "WireTopic"), [["99", "199", "299"]]);
    assert_eq!(broker_bodies(&got, "T7"), [["7", "107", "207"]]);
    assert_eq!(broker_bodies(&got, "T5").concat().len(), 3);
    let alone = got.iter().filter(|one| one.code == 310);
    let mut alone: Vec<_> = alone.map(|one| one.bodies.concat()).collect();
    alone.sort_unstable();
    assert_eq!(alone, ["198", "298", "5", "98"]);
}

fn broker_bodies(got: &[Got], topic: &str) -> Vec<Vec<String>> {
    let of_topic = got.iter().filter(|one| one.topic == topic);
    of_topic.map(|one| one.bodies.clone()).collect()
}

#[test]
fn a_rate_is_kept() {
    let broker = Broker::new(|_, _| Some(0));
    let slow = Plan {
        rate: Some(1000.0),
        ..plan()
    };
    let mut rig = Rig::new(slow, &[&broker]);
    let begun = Instant::now();
    rig.write(&numbered(1000).rows()).unwrap();
    assert!(begun.elapsed() > Duration::from_millis(700));
    assert_eq!(broker.got.lock().len(), 4);
}

#[test]
fn a_topic_without_a_route_and_a_bad_row_are_errors() {
    let broker = Broker::new(|_, _| Some(0));
    let mut rig = Rig::new(plan(), &[&broker]);
    let bodies = Column::of([Some("a"), None, Some("c")]);
    let error = rig.write(&bodies.rows()).unwrap_err();
    assert_eq!(error.to_string(), "row 1: its body is null");
    let topics = Column::of([Some("Missing")]);
    let rows = Rows {
        topic: Some(topics.texts()),
        len: 1,
        ..bodies.rows()
    };
    let error = rig.write(&rows).unwrap_err();
    assert_eq!(error.to_string(), "no such topic");
}

/// Messages of one batch have at most 256 KiB, but a larger message has a batch of its own.
#[test]
fn batches_are_split_by_bytes() {
    let broker = Broker::new(|_, _| Some(0));
    let mut rig = Rig::new(plan(), &[&broker]);
    let sizes = [100_000, 100_000, 100_000, 400_000, 10, 261_000, 10];
    let bodies = Column::of(sizes.map(|size| Some("x".repeat(size))));
    rig.write(&bodies.rows()).unwrap();
    let got = broker.got.lock();
    let mut sent: Vec<Vec<usize>> = got
        .iter()
        .map(|one| one.bodies.iter().map(String::len).collect())
        .collect();
    sent.sort_unstable();
    let wanted = [
        vec![10, 261_000, 10],
        vec![100_000],
        vec![100_000; 2],
        vec![400_000],
    ];
    assert_eq!(sent, wanted);
}
