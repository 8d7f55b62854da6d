//! The generator against a broker of a few lines, which is its own NameServer.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;

use super::*;
use crate::format::remoting::Frame;

/// What the stand-in broker answers to sends.
const BACKLOG: i64 = 100;

fn serve(mut stream: TcpStream, own: &str, send_code: i32) {
    let mut word = [0; 4];
    while stream.read_exact(&mut word).is_ok() {
        let mut bytes = vec![0; u32::from_be_bytes(word) as usize];
        stream.read_exact(&mut bytes).unwrap();
        let frame = [word.to_vec(), bytes].concat();
        let frame = Frame::decode(&frame).unwrap();
        let reply = answer(&frame, own, send_code);
        if stream.write_all(&reply).is_err() {
            return;
        }
    }
}

fn answer(frame: &Frame<'_>, own: &str, send_code: i32) -> Vec<u8> {
    let mut reply = Vec::new();
    let ok = frame.reply(0, None);
    match frame.code {
        105 if frame.ext.get("topic") == Some("unknown") => {
            frame.reply(17, None).encode(&[], b"", &mut reply);
        }
        105 => {
            let broker = format!(r#"{{"brokerAddrs":{{0:"{own}"}},"brokerName":"b"}}"#);
            let queue = r#"{"brokerName":"b","perm":6,"readQueueNums":2,"writeQueueNums":2}"#;
            let body = format!(r#"{{"brokerDatas":[{broker}],"queueDatas":[{queue}]}}"#);
            ok.encode(&[], body.as_bytes(), &mut reply);
        }
        310 | 320 => frame
            .reply(send_code, Some("busy"))
            .encode(&[], b"", &mut reply),
        30 => ok.encode(&[("offset", BACKLOG.into())], b"", &mut reply),
        31 => ok.encode(&[("offset", 0.into())], b"", &mut reply),
        11 => {
            let at: i64 = frame.ext.get("queueOffset").unwrap().parse().unwrap();
            let count = (BACKLOG - at).min(32);
            let body = [0, 0, 0, 5, 9].repeat(count as usize);
            ok.encode(
                &[("nextBeginOffset", (at + count).into())],
                &body,
                &mut reply,
            );
        }
        other => panic!("request code {other}"),
    }
    reply
}

fn broker(send_code: i32) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let own = address.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let own = own.clone();
            std::thread::spawn(move || serve(stream.unwrap(), &own, send_code));
        }
    });
    address
}

fn load(namesrv: String) -> Load {
    Load {
        namesrv,
        topic: "T".to_owned(),
        warmup_s: 0.0,
        count: 1000,
        ..Load::default()
    }
}

#[test]
fn produces_the_messages_asked_for_in_every_mode() {
    let never = AtomicBool::new(false);
    for (threads, in_flight, batch) in [(1, 1, 1), (4, 1, 1), (1, 64, 1), (2, 8, 10)] {
        for headers in [Headers::Json, Headers::Rocketmq] {
            let load = Load {
                threads,
                headers,
                ..load(broker(0))
            };
            let settings = Produce {
                load,
                in_flight,
                batch,
                body_bytes: 10,
                ..Produce::default()
            };
            let report = produce(&settings, &never).unwrap();
            assert_eq!((report.messages, report.bytes), (1000, 10_000));
            assert_eq!(report.requests, 1000 / batch as u64);
            assert_eq!(report.each_second.iter().sum::<u64>(), 1000);
            assert!(report.refused.is_empty() && report.latency_us.p50 > 0.0);
            assert!(report.latency_us.p50 <= report.latency_us.p999);
        }
    }
}

#[test]
fn refusals_are_an_error_with_code_and_remark() {
    let settings = Produce {
        load: load(broker(2)),
        ..Produce::default()
    };
    let error = produce(&settings, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(&error, BenchError::Refused { code: 2, remark, .. } if remark == "busy"));
}

#[test]
fn consumes_every_message_of_every_queue() {
    let never = AtomicBool::new(false);
    for threads in [1, 8] {
        let load = Load {
            threads,
            count: 0,
            ..load(broker(0))
        };
        let settings = Consume {
            load,
            ..Consume::default()
        };
        let report = consume(&settings, &never).unwrap();
        assert_eq!(
            (report.messages, report.bytes),
            (2 * BACKLOG as u64, 10 * BACKLOG as u64)
        );
        assert_eq!(report.requests, 8);
    }
}

#[test]
fn stopping_and_bad_settings() {
    let stopped = AtomicBool::new(true);
    let settings = Produce {
        load: load(broker(0)),
        ..Produce::default()
    };
    assert_eq!(produce(&settings, &stopped).unwrap().messages, 0);
    let settings = Produce {
        in_flight: 0,
        ..settings
    };
    let text = produce(&settings, &stopped).unwrap_err().to_string();
    assert_eq!(text, "in_flight 0 is not between 1 and 1048576");
    let load = Load {
        topic: "unknown".to_owned(),
        ..load(broker(0))
    };
    let error = consume(
        &Consume {
            load,
            ..Consume::default()
        },
        &stopped,
    )
    .unwrap_err();
    assert!(matches!(error, BenchError::Refused { code: 17, .. }));
}
