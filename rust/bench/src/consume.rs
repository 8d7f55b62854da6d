//! Reads a backlog, or new messages.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::brokers::brokers;
use super::pace::{Pace, run_workers};
use super::produce::refused_or_failed;
use super::reader::{Arrival, Reader};
use super::records::records;
use super::report::{Meter, Report};
use super::route::{Broker, Purpose, QueueAt};
use super::settings::WORKERS_MAX;
use super::{BenchError, Consume};
use mq_base::clock::SystemClock;

/// The meaning of each count of a run's totals that makes the run a failed one.
pub(super) const MEANINGS: [(&str, &str); 3] = [
    (
        "missing",
        "messages are missing: the offsets of their queue jump over them",
    ),
    ("repeated", "messages came again"),
    ("damaged", "messages came damaged and were left out"),
];

pub(super) fn run(settings: &Consume, stop: &AtomicBool) -> Result<Report, BenchError> {
    let brokers = brokers(&settings.load, Purpose::Read, &mut Vec::new())?;
    let readers = connect(settings, &brokers)?;
    let pace = Pace::start(&settings.load, stop);
    let clock = SystemClock::shared();
    let take = |meter: &mut Meter, arrival: &Arrival<'_>| {
        pace.spend(arrival.messages);
        let Some(at) = pace.counted(arrival.now) else {
            return;
        };
        let bytes = arrival.body.len() as u64;
        if !settings.tail {
            let took = arrival.now - arrival.asked_at;
            return meter.count(at, took, arrival.messages, bytes);
        }
        // A held pull is answered when a message comes, so its duration is no latency.
        meter.arrived(at, arrival.messages, bytes);
        note_ages(meter, arrival, clock.wall_ms());
    };
    let ended = run_workers(readers, |mut reader| {
        let mut meter = Meter::new();
        let mut take = &take;
        let is_over = |now| pace.is_over(now);
        let failure = reader.read_all(&mut meter, &is_over, &mut take).err();
        (meter, failure)
    })?;
    let (meters, failures): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
    let mut report = pace.report(meters);
    if report.total("received") == 0 {
        refused_or_failed(&report, &brokers, failures.into_iter().flatten().next())?;
    }
    report.complain(&MEANINGS);
    Ok(report)
}

/// The time from a message's birth, by its sender's clock, to its arrival here.
fn note_ages(meter: &mut Meter, arrival: &Arrival<'_>, now_ms: i64) {
    for view in records(arrival.body).filter_map(|record| record.ok()?.view()) {
        let age_ms = now_ms.saturating_sub(view.born_timestamp_ms);
        meter.took(Duration::from_millis(u64::try_from(age_ms).unwrap_or(0)));
    }
}

/// Makes, for each group, the connections that share every broker's queues.
pub(super) fn connect<'a>(
    settings: &'a Consume,
    brokers: &[Broker],
) -> Result<Vec<Reader<'a>>, BenchError> {
    let parts = |broker: &Broker| settings.load.threads.min(broker.queues.len());
    let connections = settings.groups * brokers.iter().map(parts).sum::<usize>();
    if connections > WORKERS_MAX {
        return Err(BenchError::Setting {
            name: "threads x groups x brokers",
            value: connections.to_string(),
            min: "1".to_owned(),
            max: WORKERS_MAX.to_string(),
        });
    }
    let mut readers = Vec::new();
    for group in 0..settings.groups {
        for broker in brokers {
            let parts = parts(broker);
            for part in 0..parts {
                let queues: Vec<QueueAt> = broker
                    .queues
                    .iter()
                    .skip(part)
                    .step_by(parts)
                    .copied()
                    .collect();
                readers.push(Reader::connect(settings, group, &broker.address, &queues)?);
            }
        }
    }
    Ok(readers)
}
