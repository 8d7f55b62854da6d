//! Produce and end-to-end runs.

use std::time::{Duration, Instant};

use super::*;

#[test]
fn every_mode_produces_the_requested_messages() {
    let modes = [
        (1, 1, 1, false),
        (4, 1, 1, false),
        (1, 64, 1, false),
        (2, 8, 10, false),
        (1, 4, 1, true),
        (2, 1, 10, true),
    ];
    for (threads, in_flight, batch, oneway) in modes {
        for headers in [Headers::Json, Headers::Rocketmq] {
            let broker = Fake::start(Faults::default());
            let mut settings = produce_settings(&broker);
            (settings.load.threads, settings.load.headers) = (threads, headers);
            (settings.in_flight, settings.batch, settings.oneway) = (in_flight, batch, oneway);
            let report = produce(&settings, &NEVER).unwrap();
            assert_eq!((report.messages, report.bytes), (1000, 40_000));
            assert_eq!(report.requests, 1000 / batch as u64);
            assert_eq!(report.each_second.iter().sum::<u64>(), 1000);
            assert_eq!((report.total("sent"), report.total("stored")), (1000, 1000));
            assert_eq!(report.problems, Vec::<String>::new());
            assert_eq!(broker.stored().values().sum::<usize>(), 1000);
            assert_eq!(broker.stored().len(), fake::QUEUES as usize);
            assert!(report.latency_us.p50 > 0.0);
            assert!(report.latency_us.p50 <= report.latency_us.p999);
        }
    }
}

#[test]
fn the_broker_creates_an_unknown_topic_and_stores_its_messages() {
    let broker = Fake::start(Faults::default());
    let mut settings = produce_settings(&broker);
    settings.load.topic = "New".to_owned();
    let report = produce(&settings, &NEVER).unwrap();
    assert_eq!((report.total("stored"), report.problems.len()), (1000, 0));
    assert_eq!(broker.stored().len(), 4); // the default of clients
}

#[test]
fn many_topics_are_created_and_each_gets_its_share() {
    let broker = Fake::start(Faults::default());
    let mut settings = produce_settings(&broker);
    (settings.load.topics, settings.load.queues) = (25, 12);
    let report = produce(&settings, &NEVER).unwrap();
    assert_eq!(report.total("topics_created"), 25);
    assert_eq!(report.more_us["create_topic_us"].count, 25);
    let stored = broker.stored();
    assert_eq!(
        (stored.len(), stored.values().sum::<usize>()),
        (25 * 12, 1000)
    );
    assert_eq!(stored[&("T-000024".to_owned(), 11)], 3);
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn a_topic_that_was_left_out_is_created_again() {
    let broker = Fake::start(Faults {
        forget_topic: 3,
        ..Faults::default()
    });
    let mut settings = produce_settings(&broker);
    settings.load.topics = 5;
    let report = produce(&settings, &NEVER).unwrap();
    assert_eq!((broker.stored().len(), report.problems.len()), (20, 0));
}

#[test]
fn refusals_are_an_error_with_code_and_remark() {
    let broker = Fake::start(Faults {
        send_code: 2,
        ..Faults::default()
    });
    let error = produce(&produce_settings(&broker), &NEVER).unwrap_err();
    assert!(matches!(&error, BenchError::Refused { code: 2, remark, .. } if remark == "busy"));
}

#[test]
fn messages_stored_less_durably_are_counted_but_not_as_lost() {
    let broker = Fake::start(Faults {
        send_code: 10,
        ..Faults::default()
    });
    let report = produce(&produce_settings(&broker), &NEVER).unwrap();
    assert_eq!(report.lesser_durability[&10], 1000);
    assert_eq!((report.messages, report.problems.len()), (1000, 0));
}

#[test]
fn acknowledged_messages_that_are_not_stored_are_lost() {
    for oneway in [false, true] {
        let broker = Fake::start(Faults {
            lose_every: 100,
            ..Faults::default()
        });
        let mut settings = produce_settings(&broker);
        (settings.oneway, settings.load.timeout_s) = (oneway, 0.2);
        let begin = Instant::now();
        let report = produce(&settings, &NEVER).unwrap();
        let stored_s = report.stored_seconds.unwrap();
        // The wait for lost messages does not count as time in which messages were stored.
        assert!(0.0 < stored_s && stored_s + 0.2 <= begin.elapsed().as_secs_f64());
        assert_eq!((report.total("stored"), report.total("lost")), (990, 10));
        assert!(report.problems[0].starts_with("10 messages are lost"));
    }
}

#[test]
fn a_silent_broker_leaves_its_requests_unanswered() {
    let broker = Fake::start(Faults {
        is_silent: true,
        ..Faults::default()
    });
    let mut settings = produce_settings(&broker);
    (settings.in_flight, settings.load.timeout_s) = (5, 0.1);
    let error = produce(&settings, &NEVER).unwrap_err();
    assert!(matches!(error, BenchError::Io { .. }), "{error}");
    // An open loop stops too: it must not wait for the end of its schedule.
    settings.rate = 1000.0;
    let begin = Instant::now();
    assert!(produce(&settings, &NEVER).is_err());
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn figures_are_kept_when_the_broker_goes_away() {
    for rate in [0.0, 10_000.0] {
        let broker = Fake::start(Faults {
            leave_after_sends: 300,
            ..Faults::default()
        });
        let settings = Produce {
            rate,
            ..produce_settings(&broker)
        };
        let report = produce(&settings, &NEVER).unwrap();
        assert_eq!((report.messages, report.total("unanswered")), (300, 1));
        let words = report.problems.join("; ");
        assert!(words.contains("1 messages were sent and never answered"));
        assert!(words.contains("whether all of them are stored is not known"));
        assert!(!report.totals.contains_key("lost"), "{:?}", report.totals);
    }
}

#[test]
fn a_count_ends_with_the_last_whole_batch() {
    for rate in [0.0, 100_000.0] {
        let broker = Fake::start(Faults::default());
        let mut settings = produce_settings(&broker);
        (settings.batch, settings.rate, settings.load.count) = (7, rate, 10);
        let report = produce(&settings, &NEVER).unwrap();
        assert_eq!((report.messages, report.problems), (7, Vec::new()));
    }
}

/// The reason for an open loop: a closed loop sends nothing while the broker stalls, so it sees one
/// slow request where users would have seen hundreds.
#[test]
fn an_open_loop_sees_the_stall_that_a_closed_loop_omits() {
    let pause = Duration::from_millis(400);
    let faults = Faults {
        pause: Some((500, pause)),
        ..Faults::default()
    };
    let closed = produce_settings(&Fake::start(faults.clone()));
    let closed = produce(&closed, &NEVER).unwrap();
    assert!(closed.latency_us.p99 < 200_000.0 && closed.latency_us.max >= 400_000.0);

    for in_flight in [1, 1000] {
        let broker = Fake::start(faults.clone());
        let open = Produce {
            rate: 1000.0,
            in_flight,
            ..produce_settings(&broker)
        };
        let open = produce(&open, &NEVER).unwrap();
        // 400 of 1,000 messages were due during the pause and waited until its end.
        assert!(open.latency_us.p90 >= 200_000.0, "{:?}", open.latency_us);
        assert!(open.latency_us.p99 >= 300_000.0 && open.latency_us.p999 >= 350_000.0);
        assert_eq!((open.messages, open.offered_per_second), (1000, 1000.0));
        if in_flight == 1 {
            // From write to reply only one request was slow, so that latency hides the stall.
            assert!(open.more_us["service_us"].p99 < 200_000.0);
            assert!(open.more_us["send_delay_us"].p90 >= 200_000.0);
        }
        assert_eq!(open.problems, Vec::<String>::new());
    }
}

#[test]
fn a_rate_is_kept_and_one_beyond_the_broker_is_reported() {
    let broker = Fake::start(Faults::default());
    let mut settings = Produce {
        rate: 2000.0,
        in_flight: 100,
        ..produce_settings(&broker)
    };
    (settings.load.count, settings.load.threads) = (0, 2);
    (settings.load.warmup_s, settings.load.duration_s) = (0.1, 0.4);
    let report = produce(&settings, &NEVER).unwrap();
    assert_eq!((report.total("sent"), report.messages), (1000, 800));
    assert_eq!(report.problems, Vec::<String>::new());

    let slow = Fake::start(Faults {
        pause: Some((10, Duration::from_millis(600))),
        ..Faults::default()
    });
    settings.load.namesrv = slow.address.clone();
    (
        settings.load.threads,
        settings.in_flight,
        settings.load.timeout_s,
    ) = (1, 1, 0.15);
    let report = produce(&settings, &NEVER).unwrap();
    assert!(report.total("unsent") > 0, "{:?}", report.totals);
    assert!(!report.problems.is_empty());
}

#[test]
fn a_stopped_run_sends_nothing_and_is_not_a_failure() {
    let broker = Fake::start(Faults::default());
    let stopped = AtomicBool::new(true);
    let report = produce(&produce_settings(&broker), &stopped).unwrap();
    assert_eq!((report.messages, report.problems.len()), (0, 0));
}

#[test]
fn every_message_is_followed_to_its_reader() {
    for (batch, rate, oneway) in [(1, 5000.0, false), (5, 0.0, false), (1, 0.0, true)] {
        let broker = Fake::start(Faults::default());
        let produce = Produce {
            batch,
            rate,
            oneway,
            in_flight: 10,
            ..produce_settings(&broker)
        };
        let settings = Latency {
            produce,
            readers: 2,
            ..Latency::default()
        };
        let report = latency(&settings, &NEVER).unwrap();
        assert_eq!((report.messages, report.bytes), (1000, 40_000));
        assert_eq!(
            (report.latency_us.count, report.total("received")),
            (1000, 1000)
        );
        assert_eq!(report.more_us["send_us"].count, 1000 / batch as u64);
        assert_eq!((report.total("lost"), report.total("duplicates")), (0, 0));
        assert_eq!(report.problems, Vec::<String>::new());
    }
}

#[test]
fn a_message_that_does_not_arrive_is_lost() {
    let broker = Fake::start(Faults {
        lose_every: 100,
        ..Faults::default()
    });
    let mut produce = produce_settings(&broker);
    produce.load.timeout_s = 0.2;
    let settings = Latency {
        produce,
        ..Latency::default()
    };
    let report = latency(&settings, &NEVER).unwrap();
    assert_eq!((report.total("lost"), report.total("received")), (10, 990));
    assert!(report.problems[0].starts_with("10 messages are lost"));
}
