//! The engine against small servers on real sockets.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tokio::runtime::Runtime;

use super::events::{Events, Failure};
use super::pool::Pool;
use super::settings::PoolSettings;
use super::silence::FIRST_PATIENCE;
use mq_format::remoting::{Frame, Head, Serialize};

const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq)]
enum Event {
    Reply(u64, String),
    Failed(u64, &'static str, String),
    Written(u64),
    Request(String, i32),
    Closed(String),
}

struct Recorder(Sender<Event>);

impl Recorder {
    fn tell(&self, event: Event) {
        self.0.send(event).unwrap_or_default();
    }
}

impl Events for Recorder {
    fn reply(&self, token: u64, reply: &Frame<'_>, frame: &[u8]) {
        let body = Frame::decode(frame).unwrap().body.to_vec();
        assert_eq!(reply.body, body);
        self.tell(Event::Reply(token, String::from_utf8(body).unwrap()));
    }
    fn failed(&self, token: u64, failure: Failure) {
        self.tell(Event::Failed(
            token,
            failure.category(),
            failure.to_string(),
        ));
    }
    fn written(&self, token: u64) {
        self.tell(Event::Written(token));
    }
    fn request(&self, address: &str, frame: &[u8]) {
        self.tell(Event::Request(
            address.to_owned(),
            Frame::decode(frame).unwrap().code,
        ));
    }
    fn closed(&self, address: &str) {
        self.tell(Event::Closed(address.to_owned()));
    }
    fn settled(&self) {}
}

struct Engine {
    pool: Pool,
    events: Receiver<Event>,
    _runtime: Runtime,
}

impl Engine {
    fn new(settings: PoolSettings) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (sender, events) = channel();
        let pool = Pool::new(
            runtime.handle().clone(),
            settings,
            Arc::new(Recorder(sender)),
        );
        Self {
            pool,
            events,
            _runtime: runtime,
        }
    }

    fn submit(&self, address: &str, token: u64, timeout: Duration, body: &str) {
        self.submit_all(address, &[(token, body)], timeout);
    }

    fn submit_all(&self, address: &str, requests: &[(u64, &str)], timeout: Duration) {
        let mut batch = self.pool.batch();
        for (token, body) in requests {
            batch.add(*token, timeout, *body == "oneway", |opaque, out| {
                if *body == "unfit" {
                    return Err("it does not fit");
                }
                Head::request(10, opaque, Serialize::Json).encode(&[], body.as_bytes(), out);
                Ok(())
            });
        }
        self.pool.submit(address, batch);
    }

    fn next(&self) -> Event {
        self.events.recv_timeout(DEADLINE).unwrap()
    }

    fn failure(&self) -> (u64, &'static str, String) {
        match self.next() {
            Event::Failed(token, category, text) => (token, category, text),
            other => panic!("{other:?}"),
        }
    }
}

/// Answers frames by their body until the client goes: "silent", "hang up", "garbage", "die" for
/// no further answer on the connection, or echo.
fn serve(mut stream: TcpStream) {
    let mut word = [0; 4];
    while stream.read_exact(&mut word).is_ok() {
        let mut bytes = vec![0; u32::from_be_bytes(word) as usize];
        stream.read_exact(&mut bytes).unwrap();
        let frame = [word.to_vec(), bytes].concat();
        let frame = Frame::decode(&frame).unwrap();
        let mut reply = Vec::new();
        match frame.body {
            b"silent" | b"oneway" => continue,
            b"hang up" => return,
            b"die" => return std::io::copy(&mut stream, &mut std::io::sink()).map_or((), |_| ()),
            b"garbage" => reply.extend_from_slice(b"HTTP/1.1 400 Bad Request"),
            b"ask me" => Head::request(40, 1, Serialize::Json).encode(&[], b"", &mut reply),
            body => frame.reply(0, None).encode(&[], body, &mut reply),
        }
        stream.write_all(&reply).unwrap();
    }
}

fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || serve(stream.unwrap()));
        }
    });
    address
}

#[test]
fn replies_find_their_requests() {
    let (engine, address) = (Engine::new(PoolSettings::default()), server());
    let bodies: Vec<_> = (0..500).map(|token| format!("body {token}")).collect();
    let requests: Vec<_> = (0..).zip(bodies.iter().map(String::as_str)).collect();
    for some in requests.chunks(7) {
        engine.submit_all(&address, some, DEADLINE);
    }
    let mut replies = HashMap::new();
    while replies.len() < 500 {
        let Event::Reply(token, body) = engine.next() else {
            panic!("not a reply")
        };
        replies.insert(token, body);
    }
    assert!(
        replies
            .iter()
            .all(|(token, body)| *body == format!("body {token}"))
    );
}

#[test]
fn oneway_requests_and_requests_of_the_server() {
    let (engine, address) = (Engine::new(PoolSettings::default()), server());
    engine.submit(&address, 1, DEADLINE, "oneway");
    assert_eq!(engine.next(), Event::Written(1));
    engine.submit(&address, 2, DEADLINE, "ask me");
    assert_eq!(engine.next(), Event::Request(address, 40));
}

#[test]
fn a_server_that_is_slow_with_one_request_keeps_its_connection() {
    let (engine, address) = (Engine::new(PoolSettings::default()), server());
    engine.submit(&address, 1, DEADLINE, "silent");
    engine.submit(&address, 2, Duration::from_millis(20), "silent");
    let (token, category, text) = engine.failure();
    assert_eq!((token, category), (2, "timeout"));
    assert_eq!(text, format!("no reply from {address} within 20ms"));
    // Longer than the wait for a sign of life.
    engine.submit(&address, 3, FIRST_PATIENCE * 2, "silent");
    assert_eq!((engine.failure().0, category), (3, "timeout"));
    engine.submit(&address, 4, DEADLINE, "x");
    assert_eq!(engine.next(), Event::Reply(4, "x".to_owned()));
}

#[test]
fn a_connection_that_fell_silent_is_replaced() {
    let (engine, address) = (Engine::new(PoolSettings::default()), server());
    engine.submit(&address, 1, DEADLINE, "die"); // like a long poll
    engine.submit(&address, 2, Duration::from_millis(50), "x");
    assert_eq!(engine.failure().1, "timeout");
    let (token, category, text) = engine.failure();
    assert_eq!((token, category), (1, "unreachable"));
    assert_eq!(
        text,
        format!("{address} is silent, so its connection was closed")
    );
    assert_eq!(engine.next(), Event::Closed(address.clone()));
    engine.submit(&address, 3, DEADLINE, "x");
    assert_eq!(engine.next(), Event::Reply(3, "x".to_owned()));
}

#[test]
fn requests_fail_on_a_broken_connection_and_the_next_reconnects() {
    let (engine, address) = (Engine::new(PoolSettings::default()), server());
    for (body, why) in [
        ("hang up", "end of stream"),
        ("garbage", "frame length 1213486160"),
    ] {
        engine.submit(&address, 1, DEADLINE, body);
        let (token, category, text) = engine.failure();
        assert_eq!((token, category), (1, "unreachable"));
        assert!(
            text.starts_with(&format!("connection to {address} closed: {why}")),
            "{text}"
        );
        assert_eq!(engine.next(), Event::Closed(address.clone()));
        engine.submit(&address, 2, DEADLINE, "x");
        assert_eq!(engine.next(), Event::Reply(2, "x".to_owned()));
    }
}

#[test]
fn a_port_without_a_server_is_reported() {
    let engine = Engine::new(PoolSettings::default());
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    engine.submit(&closed, 1, DEADLINE, "x");
    let (token, category, text) = engine.failure();
    assert_eq!((token, category), (1, "unreachable"));
    assert!(
        text.starts_with(&format!("cannot connect to {closed}: ")),
        "{text}"
    );
}

#[test]
fn the_number_in_flight_is_bounded_and_closing_fails_them_all() {
    let settings = PoolSettings {
        in_flight_max: 2,
        ..PoolSettings::default()
    };
    let (engine, address) = (Engine::new(settings), server());
    for token in 0..3 {
        engine.submit(&address, token, DEADLINE, "silent");
    }
    let busy = engine.failure();
    assert_eq!(
        busy,
        (2, "busy", "2 requests are in flight already".to_owned())
    );
    engine.pool.close();
    let mut closed = [engine.failure(), engine.failure()];
    closed.sort();
    assert!(
        closed
            .iter()
            .zip(0..)
            .all(|(failure, token)| failure.0 == token)
    );
    assert!(closed.iter().all(|failure| failure.1 == "closed"));
    assert_eq!(engine.next(), Event::Closed(address.clone()));
    engine.submit(&address, 9, DEADLINE, "x");
    assert_eq!(engine.failure().1, "closed");
}

#[test]
fn an_idle_connection_is_closed() {
    let idle_timeout = Duration::from_millis(40);
    let settings = PoolSettings {
        idle_timeout,
        ..PoolSettings::default()
    };
    let (engine, address) = (Engine::new(settings), server());
    engine.submit(&address, 1, DEADLINE, "x");
    assert_eq!(engine.next(), Event::Reply(1, "x".to_owned()));
    assert_eq!(engine.next(), Event::Closed(address));
}

#[test]
fn a_batch_is_sent_without_the_request_that_cannot_be_encoded() {
    let (engine, address) = (Engine::new(PoolSettings::default()), server());
    let requests = [(1, "x"), (2, "unfit"), (3, "oneway"), (4, "y")];
    for _ in ["while connecting", "when open"] {
        engine.submit_all(&address, &requests, DEADLINE);
        let (token, category, text) = engine.failure();
        let expected = (2, "bad_frame", "not a frame: it does not fit".to_owned());
        assert_eq!((token, category, text), expected);
        let mut rest = [engine.next(), engine.next(), engine.next()];
        rest.sort_by_key(|event| matches!(event, Event::Written(_)));
        let reply = |token, body: &str| Event::Reply(token, body.to_owned());
        assert_eq!(rest, [reply(1, "x"), reply(4, "y"), Event::Written(3)]);
    }
}
