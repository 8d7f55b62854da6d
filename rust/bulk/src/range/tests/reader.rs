//! The reader against a scripted server on loopback.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use mq_format::remoting::Frame;
use parking_lot::Mutex;
use tokio::runtime::Runtime;

use super::model::{DEADLINE, Queue, plan, record};
use crate::range::{Loss, Next, Plan, RangeReader, Subscription};
use mq_client::settings::PoolSettings;

/// What the server does with a pull instead of answering it from the queue.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Code(i32),
    HangUp,
    Silence,
}

struct Server {
    address: String,
    /// The queueOffset, maxMsgNums, subscription and expressionType of each pull.
    asked: Receiver<[String; 4]>,
    /// Receives a value when a connection ends.
    ended: Receiver<()>,
}

/// Answers pulls from `queue`, except the first ones, which get the faults.
fn server(queue: Queue, faults: &[Fault]) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (asked_sender, asked) = channel();
    let (ended_sender, ended) = channel();
    let faults: VecDeque<Fault> = faults.iter().copied().collect();
    let faults = Arc::new(Mutex::new(faults));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (queue, faults) = (queue.clone(), faults.clone());
            let (asked, ended) = (asked_sender.clone(), ended_sender.clone());
            std::thread::spawn(move || {
                serve(stream.unwrap(), &queue, &faults, &asked);
                ended.send(()).unwrap_or_default();
            });
        }
    });
    Server {
        address,
        asked,
        ended,
    }
}

fn serve(
    mut stream: TcpStream,
    queue: &Queue,
    faults: &Mutex<VecDeque<Fault>>,
    asked: &Sender<[String; 4]>,
) {
    let mut word = [0; 4];
    while stream.read_exact(&mut word).is_ok() {
        let mut bytes = vec![0; u32::from_be_bytes(word) as usize];
        stream.read_exact(&mut bytes).unwrap();
        let frame = [word.to_vec(), bytes].concat();
        let frame = Frame::decode(&frame).unwrap();
        let names = [
            "queueOffset",
            "maxMsgNums",
            "subscription",
            "expressionType",
        ];
        let values = names.map(|name| frame.ext.get(name).unwrap().to_owned());
        let [offset, count] = [&values[0], &values[1]].map(|text| text.parse().unwrap());
        asked.send(values).unwrap_or_default();
        let fault = faults.lock().pop_front();
        let mut out = Vec::new();
        match fault {
            Some(Fault::HangUp) => return,
            Some(Fault::Silence) => continue,
            Some(Fault::Code(code)) => {
                frame
                    .reply(code, Some("says no"))
                    .encode(&[], b"", &mut out);
            }
            None => {
                let reply = queue.pull(offset, count);
                let fields = [("nextBeginOffset", reply.next.into())];
                let head = frame.reply(reply.code, None);
                head.encode(&fields, &reply.body, &mut out);
            }
        }
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

fn reader(runtime: &Runtime, plan: Plan) -> RangeReader {
    let mut reader = RangeReader::new(runtime.handle().clone(), PoolSettings::default(), None);
    reader.add(plan);
    reader
}

/// Returns the records and the losses of the whole range, or the error.
fn read(plan: Plan) -> Result<(Vec<u8>, Vec<Loss>), String> {
    let runtime = runtime();
    let mut reader = reader(&runtime, plan);
    let (mut records, mut losses) = (Vec::new(), Vec::new());
    loop {
        match reader.next(DEADLINE).map_err(|error| error.to_string())? {
            Next::Part(part) => {
                records.extend(part.records);
                losses.extend(part.losses);
            }
            Next::Waiting => panic!("nothing came"),
            Next::End => return Ok((records, losses)),
        }
    }
}

fn records(offsets: impl Iterator<Item = i64>) -> Vec<u8> {
    offsets.flat_map(record).collect()
}

/// An address at which no server listens.
fn closed_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn pulls_are_as_long_as_the_replies_of_the_broker() {
    let server = server(Queue::whole(0, 800, 64), &[]);
    assert_eq!(read(plan(&server.address)), Ok((records(0..500), vec![])));
    let asked: Vec<_> = server.asked.try_iter().collect();
    assert_eq!(asked[0], ["0", "100", "*", "TAG"]);
    assert!(
        asked[1..]
            .iter()
            .all(|[_, count, ..]| count == "64" || count == "52")
    );
    assert_eq!(asked.len(), 8);
}

#[test]
fn a_filter_goes_with_each_pull() {
    let mut queue = Queue::whole(0, 800, 64);
    queue.matches = Some((0..800).step_by(7).collect());
    queue.scans = 30;
    let server = server(queue, &[]);
    let mut plan = plan(&server.address);
    plan.subscription = Subscription::Sql92("a > 1".to_owned());
    let expected = records((0..500).step_by(7));
    assert_eq!(read(plan), Ok((expected, vec![])));
    let asked: Vec<_> = server.asked.try_iter().collect();
    assert!(
        asked
            .iter()
            .all(|[.., text, kind]| text == "a > 1" && kind == "SQL92")
    );
}

#[test]
fn no_message_is_lost_in_temporary_failures() {
    let faults = [
        Fault::Code(2),
        Fault::HangUp,
        Fault::Code(14),
        Fault::Silence,
    ];
    let server = server(Queue::whole(0, 800, 64), &faults);
    let mut plan = plan(&server.address);
    plan.pull_timeout = Duration::from_secs(2);
    assert_eq!(read(plan), Ok((records(0..500), vec![])));
}

#[test]
fn a_slave_helps_while_the_master_is_away() {
    let slave = server(Queue::whole(0, 800, 64), &[]);
    let mut plan = plan(&closed_address());
    plan.slave = Some(slave.address.clone());
    plan.end = 100;
    assert_eq!(read(plan), Ok((records(0..100), vec![])));
}

#[test]
fn a_slave_without_a_master_is_read() {
    let slave = server(Queue::whole(0, 800, 64), &[]);
    let mut plan = plan("");
    (plan.master, plan.slave) = (None, Some(slave.address.clone()));
    assert_eq!(read(plan), Ok((records(0..500), vec![])));
}

#[test]
fn no_message_is_lost_when_the_slave_lags() {
    for master in [Some(closed_address()), None] {
        let slave = server(Queue::whole(0, 50, 64), &[]);
        let mut plan = plan("");
        plan.master = master;
        plan.slave = Some(slave.address.clone());
        plan.end = 100;
        plan.outage_budget = Duration::from_millis(900);
        let error = read(plan).unwrap_err();
        let place = "T of broker-a, queue 3: the pull at offset 50 from ";
        assert!(error.starts_with(place), "{error}");
        let reason = "failed until the retries ran out";
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_slave_that_may_not_be_read_loses_no_message() {
    let mut queue = Queue::whole(0, 800, 64);
    queue.matches = Some([].into());
    let slave = server(queue, &[]);
    let mut plan = plan(&closed_address());
    plan.slave = Some(slave.address.clone());
    plan.subscription = Subscription::Tags("A".to_owned());
    plan.outage_budget = Duration::from_millis(900);
    let error = read(plan).unwrap_err();
    assert!(error.contains("the pull at offset 0"), "{error}");
}

#[test]
fn a_refusal_is_reported_at_once() {
    let server = server(Queue::whole(0, 800, 64), &[Fault::Code(16)]);
    let error = read(plan(&server.address)).unwrap_err();
    let expected = format!(
        "T of broker-a, queue 3: the pull at offset 0 from {} was refused with code 16: says no",
        server.address
    );
    assert_eq!(error, expected);
}

#[test]
fn a_reader_dropped_early_closes_its_connection() {
    let server = server(Queue::whole(0, 800, 64), &[]);
    let runtime = runtime();
    let mut reader = reader(&runtime, plan(&server.address));
    assert!(matches!(reader.next(DEADLINE), Ok(Next::Part(_))));
    drop(reader);
    server.ended.recv_timeout(DEADLINE).unwrap();
}

#[test]
fn ranges_are_read_one_after_another_and_pulled_together() {
    let server = server(Queue::whole(0, 800, 64), &[]);
    let runtime = runtime();
    let mut reader = reader(&runtime, plan(&server.address));
    for first in 0..200 {
        let (first, end) = (first * 4, first * 4 + 4);
        reader.add(Plan {
            first,
            end,
            ..plan(&server.address)
        });
    }
    let mut ranges = vec![Vec::new()];
    while ranges.len() <= 201 {
        match reader.next(DEADLINE).unwrap() {
            Next::Part(part) => ranges.last_mut().unwrap().extend(part.records),
            Next::Waiting => panic!("nothing came"),
            Next::End => ranges.push(Vec::new()),
        }
    }
    assert_eq!(ranges.remove(0), records(0..500));
    for (first, range) in ranges[..200].iter().enumerate() {
        let first = first as i64 * 4;
        assert_eq!(*range, records(first..first + 4));
    }
    assert_eq!(reader.next(DEADLINE), Ok(Next::End));
    let asked: Vec<_> = server.asked.try_iter().collect();
    assert_eq!(asked.len(), 8 + 200);
}

#[test]
fn waiting_is_bounded() {
    let server = server(Queue::whole(0, 800, 64), &[Fault::Silence]);
    let runtime = runtime();
    let mut reader = reader(&runtime, plan(&server.address));
    let next = reader.next(Duration::from_millis(20));
    assert_eq!(next, Ok(Next::Waiting));
}
