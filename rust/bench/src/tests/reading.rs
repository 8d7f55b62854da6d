//! Consume runs.

use super::*;

fn settings(broker: &Fake) -> Consume {
    Consume {
        load: Load {
            count: 0,
            ..load(broker)
        },
        ..Consume::default()
    }
}

fn filled() -> Fake {
    let broker = Fake::start(Faults::default());
    (0..fake::QUEUES).for_each(|queue| broker.fill("T", queue, 100));
    broker
}

#[test]
fn consumes_every_message_of_every_queue_once_per_group() {
    let broker = filled();
    for (threads, groups) in [(1, 1), (8, 1), (1, 3)] {
        let mut settings = settings(&broker);
        (settings.load.threads, settings.groups) = (threads, groups);
        let report = consume(&settings, &NEVER).unwrap();
        assert_eq!(report.messages, 200 * groups as u64);
        assert_eq!(
            (report.requests, report.total("missing")),
            (8 * groups as u64, 0)
        );
        assert_eq!(report.problems, Vec::<String>::new());
        assert!(broker.committed().is_empty());
    }
}

#[test]
fn commits_where_each_group_ended() {
    let broker = filled();
    let mut settings = settings(&broker);
    (settings.groups, settings.commit) = (2, true);
    consume(&settings, &NEVER).unwrap();
    let committed = broker.committed();
    assert_eq!(committed.len(), 4);
    let last = ("mqclient_bench-001".to_owned(), "T".to_owned(), 1);
    assert_eq!(committed[&last], 100);
}

#[test]
fn a_gap_in_a_queue_is_a_loss() {
    let broker = filled();
    broker.lose("T", 1, 50);
    let report = consume(&settings(&broker), &NEVER).unwrap();
    assert_eq!((report.messages, report.total("missing")), (199, 1));
    assert!(report.problems[0].starts_with("1 messages are missing"));
    // A reader of some tags expects gaps.
    let some = Consume {
        expression: "A".to_owned(),
        ..settings(&broker)
    };
    assert_eq!(consume(&some, &NEVER).unwrap().problems.len(), 0);
}

#[test]
fn a_damaged_message_is_counted_but_not_as_received() {
    let broker = filled();
    broker.damage("T", 1, 50);
    let report = consume(&settings(&broker), &NEVER).unwrap();
    let totals = ["received", "missing", "repeated", "damaged"].map(|name| report.total(name));
    assert_eq!((report.messages, totals), (199, [199, 0, 0, 1]));
    assert_eq!(
        report.problems,
        ["1 messages came damaged and were left out"]
    );
}

#[test]
fn a_count_ends_a_repeated_run() {
    let broker = filled();
    let mut settings = settings(&broker);
    (settings.repeat, settings.load.count) = (true, 1000);
    let report = consume(&settings, &NEVER).unwrap();
    // Replies to pulls that were sent before the count was reached still arrive.
    assert!(
        (1000..1100).contains(&report.messages),
        "{}",
        report.messages
    );
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn a_tail_gets_what_arrives_while_it_waits() {
    let broker = filled();
    let mut settings = settings(&broker);
    (settings.tail, settings.load.count, settings.load.duration_s) = (true, 50, 20.0);
    let report = std::thread::scope(|scope| {
        let reading = scope.spawn(|| consume(&settings, &NEVER).unwrap());
        while !reading.is_finished() {
            broker.fill("T", 0, 1);
            std::thread::yield_now();
        }
        reading.join().unwrap()
    });
    assert!(report.messages >= 50);
    assert_eq!(report.latency_us.count, report.messages);
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn an_unknown_topic_is_an_error() {
    let broker = filled();
    let mut settings = settings(&broker);
    settings.load.topic = "unknown".to_owned();
    let error = consume(&settings, &NEVER).unwrap_err();
    assert!(matches!(error, BenchError::NoTopic { topic, .. } if topic == "unknown"));
}
