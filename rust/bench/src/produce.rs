//! Sends messages, and counts them in the queues.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::brokers::brokers;
use super::offsets::{Moved, Stored};
use super::pace::{Pace, run_workers};
use super::report::{Meter, Report};
use super::route::{Broker, Purpose};
use super::sender::Sender;
use super::{BenchError, Produce};

/// The meaning of each count of a run's totals that makes the run a failed one.
pub(super) const MEANINGS: [(&str, &str); 3] = [
    ("unanswered", "messages were sent and never answered"),
    ("unsent", "messages were due and could not be sent in time"),
    (
        "lost",
        "messages are lost: acknowledged (or sent oneway) and not in their queues",
    ),
];

pub(super) fn run(settings: &Produce, stop: &AtomicBool) -> Result<Report, BenchError> {
    let load = &settings.load;
    let mut created = Vec::new();
    let brokers = brokers(load, Purpose::Write, &mut created)?;
    let stored = Stored::begin(load, &brokers)?;
    let workers = connect(settings, &brokers, None)?;
    let pace = Pace::start(load, stop);
    let ended = run_workers(workers, |worker| worker.run(&pace))?;
    let mut failure = None;
    let mut meters = Vec::new();
    // A oneway connection must live until its messages are known to be stored.
    let mut open = Vec::new();
    for one in ended {
        failure = failure.or(one.failure);
        meters.push(one.meter);
        open.push(one.exchange);
    }
    let mut report = pace.report(meters);
    report.offered_per_second = settings.rate;
    note_created(&mut report, &created);
    let safe = report.total(if settings.oneway {
        "sent"
    } else {
        "acknowledged"
    });
    if safe == 0 {
        refused_or_failed(&report, &brokers, failure)?;
    }
    // A topic that was created meanwhile has its queues now; before the run they were empty.
    let after = stored_after(load, &brokers, stored, safe);
    drop(open);
    let after = after.map(|after| {
        let lost = safe.saturating_sub(after.messages);
        report.totals.insert("stored", after.messages);
        report.totals.insert("lost", lost);
        report.stored_seconds = Some(pace.since_begin(after.at).as_secs_f64());
    });
    report.complain(&MEANINGS);
    if let Err(error) = after {
        // The figures from before the broker was lost are still reported.
        let text = format!("whether all of them are stored is not known: {error}");
        report.problems.push(text);
    }
    Ok(report)
}

/// Adds the number of created topics and the times of the creations.
pub(super) fn note_created(report: &mut Report, created: &[Duration]) {
    if created.is_empty() {
        return;
    }
    let mut meter = Meter::new();
    created
        .iter()
        .for_each(|time| meter.note("create_topic_us", *time));
    report.more_us.extend(meter.report(Duration::ZERO).more_us);
    report.totals.insert("topics_created", created.len() as u64);
}

fn stored_after(
    load: &super::Load,
    brokers: &[Broker],
    before: Stored<'_>,
    expected: u64,
) -> Result<Moved, BenchError> {
    if !brokers.iter().any(|broker| broker.is_template) || expected == 0 {
        return before.moved(expected);
    }
    // The NameServer may not know the new topic yet, but its brokers do.
    let mut existing = brokers.to_vec();
    existing
        .iter_mut()
        .for_each(|broker| broker.is_template = false);
    Stored::from_empty(load, &existing).moved(expected)
}

/// The error of a run in which nothing was stored; None if nothing was sent.
pub(super) fn refused_or_failed(
    report: &Report,
    brokers: &[Broker],
    failure: Option<BenchError>,
) -> Result<(), BenchError> {
    let refusal = report
        .refused
        .keys()
        .next()
        .zip(report.first_refusal.as_ref());
    match (failure, refusal) {
        (_, Some((code, remark))) => Err(BenchError::Refused {
            address: brokers[0].address.clone(),
            code: *code,
            remark: remark.clone(),
        }),
        (Some(failure), None) => Err(failure),
        (None, None) => Ok(()),
    }
}

/// One worker per thread, each with a connection to one of the brokers.
pub(super) fn connect<'a>(
    settings: &'a Produce,
    brokers: &'a [Broker],
    run: Option<u64>,
) -> Result<Vec<Sender<'a>>, BenchError> {
    (0..settings.load.threads)
        .map(|index| Sender::connect(settings, index, &brokers[index % brokers.len()], run))
        .collect()
}
