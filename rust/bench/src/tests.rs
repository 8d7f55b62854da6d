//! The load generator against a stand-in broker that is its own NameServer.

mod connecting;
mod fake;
mod figures;
mod reading;
mod sending;

use std::sync::atomic::AtomicBool;

use super::*;
use fake::{Fake, Faults};

static NEVER: AtomicBool = AtomicBool::new(false);

/// A load of at most 1,000 messages, all of which are measured.
fn load(broker: &Fake) -> Load {
    Load {
        namesrv: broker.address.clone(),
        topic: "T".to_owned(),
        warmup_s: 0.0,
        count: 1000,
        timeout_s: 5.0,
        ..Load::default()
    }
}

fn produce_settings(broker: &Fake) -> Produce {
    Produce {
        load: load(broker),
        body_bytes: 40,
        ..Produce::default()
    }
}

#[test]
fn wrong_settings_are_refused_with_the_range() {
    let broker = Fake::start(Faults::default());
    let good = produce_settings(&broker);
    type Change<'a> = &'a dyn Fn(&mut Produce);
    let with = |change: Change<'_>| {
        let mut settings = good.clone();
        change(&mut settings);
        produce(&settings, &NEVER).unwrap_err().to_string()
    };
    let cases: [(Change<'_>, &str); 10] = [
        (
            &|s| s.in_flight = 0,
            "in_flight 0 is not between 1 and 1048576",
        ),
        (
            &|s| s.load.threads = 0,
            "threads 0 is not between 1 and 4096",
        ),
        (
            &|s| s.load.topics = 100_001,
            "topics 100001 is not between 1 and 100000",
        ),
        (
            &|s| s.load.queues = -1,
            "queues -1 is not between 0 and 65535",
        ),
        (
            &|s| s.rate = f64::NAN,
            "rate NaN is not between 0 and 100000000",
        ),
        (
            &|s| s.load.duration_s = -1.0,
            "duration_s -1 is not between 0 and 1000000",
        ),
        (
            &|s| (s.body_bytes, s.batch) = (4096, 1025),
            "bytes of a batch 4198400 is not between 1 and 4194304",
        ),
        (
            &|s| (s.load.count, s.batch) = (3, 4),
            "count 3 is not between 4 and 1000000000000",
        ),
        (
            &|s| s.load.topic = "a b".to_owned(),
            "topic \"a b\" is not 1 to 127 of the characters A-Z a-z 0-9 % | - _",
        ),
        (
            &|s| s.load.namesrv = " ; ".to_owned(),
            "no NameServer is given",
        ),
    ];
    for (change, words) in cases {
        assert_eq!(with(change), words);
    }
}

#[test]
fn contradicting_settings_are_refused() {
    let tail = Consume {
        tail: true,
        repeat: true,
        ..Consume::default()
    };
    let error = consume(&tail, &NEVER).unwrap_err();
    assert_eq!(error.to_string(), "tail and repeat exclude each other");
    let small = Latency {
        produce: Produce {
            body_bytes: 35,
            ..Produce::default()
        },
        ..Latency::default()
    };
    let error = latency(&small, &NEVER).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("body_bytes 35 is not between 36")
    );
}
