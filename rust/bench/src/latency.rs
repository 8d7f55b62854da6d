//! Sends and reads at the same time: measures from when a message is due until its reader gets it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::brokers::brokers;
use super::consume;
use super::pace::{Pace, can_start, run_workers};
use super::produce::{self, note_created, refused_or_failed};
use super::reader::{Arrival, Reader};
use super::records::records;
use super::report::{Meter, Report};
use super::route::Purpose;
use super::sender::Ended;
use super::stamp::{Seen, Stamp};
use super::{BenchError, Latency};

/// The meaning of each count of a run's totals that makes the run a failed one.
const MEANINGS: [(&str, &str); 5] = [
    produce::MEANINGS[0],
    produce::MEANINGS[1],
    ("lost", "messages are lost: acknowledged and not received"),
    ("duplicates", "messages were received twice"),
    consume::MEANINGS[2],
];

pub(super) fn run(settings: &Latency, stop: &AtomicBool) -> Result<Report, BenchError> {
    let load = &settings.produce.load;
    let mut created = Vec::new();
    let brokers = brokers(load, Purpose::WriteExisting, &mut created)?;
    let consume = settings.consume();
    let readers = consume::connect(&consume, &brokers)?;
    let run = Stamp::new_run();
    let workers = produce::connect(&settings.produce, &brokers, Some(run))?;
    can_start(readers.len() + workers.len() + 1)?;
    let pace = Pace::start(load, stop);
    let progress = Progress::new(load.timeout());
    let (sent, read) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            run_workers(readers, |reader| {
                Catch::read(reader, (&pace, &progress), run, load.threads)
            })
        });
        let sent = run_workers(workers, |worker| worker.run(&pace));
        progress.expect(sent.as_deref().map_or(0, count_acknowledged));
        let read = reading.join().map_err(|_| BenchError::Worker);
        (sent, read.and_then(|read| read))
    });
    let (sent, read) = (sent?, read?);
    let (mut report, failure) = compare(&pace, sent, read);
    report.offered_per_second = settings.produce.rate;
    note_created(&mut report, &created);
    if report.total("acknowledged") == 0 {
        refused_or_failed(&report, &brokers, failure)?;
    }
    report.complain(&MEANINGS);
    Ok(report)
}

fn count_acknowledged(sent: &[Ended]) -> u64 {
    let seen = sent.iter().filter_map(|one| one.seen.as_ref());
    seen.map(Seen::count).sum()
}

/// Adds up the figures of both sides, and counts the messages that were acknowledged and not read.
fn compare(pace: &Pace<'_>, sent: Vec<Ended>, read: Vec<Catch>) -> (Report, Option<BenchError>) {
    let mut failure = None;
    let mut whole = Meter::new();
    let mut arrived: Vec<Seen> = Vec::new();
    for one in read {
        arrived.resize_with(arrived.len().max(one.seen.len()), Seen::default);
        for (all, some) in arrived.iter_mut().zip(&one.seen) {
            all.merge(some);
        }
        whole.add(one.meter);
        failure = failure.or(one.failure);
    }
    let nothing = Seen::default();
    for (index, mut one) in sent.into_iter().enumerate() {
        let arrived = arrived.get(index).unwrap_or(&nothing);
        let lost = one
            .seen
            .as_ref()
            .map_or(0, |seen| seen.count_without(arrived));
        one.meter.total("lost", lost);
        one.meter.only_latency_as("send_us");
        whole.add(one.meter);
        failure = failure.or(one.failure);
    }
    (pace.report([whole]), failure)
}

/// Progress of the readers.
struct Progress {
    received: AtomicU64,
    /// Messages to wait for; `u64::MAX` until the senders have ended.
    expected: AtomicU64,
    timeout: Duration,
}

impl Progress {
    fn new(timeout: Duration) -> Self {
        Self {
            received: AtomicU64::new(0),
            expected: AtomicU64::new(u64::MAX),
            timeout,
        }
    }

    fn expect(&self, messages: u64) {
        self.expected.store(messages, Ordering::Release);
    }

    /// Whether all messages are here, or none came for the timeout since the senders ended.
    fn is_over(&self, heard: &mut (u64, Instant), now: Instant) -> bool {
        let expected = self.expected.load(Ordering::Acquire);
        let received = self.received.load(Ordering::Relaxed);
        if received > heard.0 || expected == u64::MAX {
            *heard = (received, now);
        }
        received >= expected || now.saturating_duration_since(heard.1) >= self.timeout
    }
}

/// The messages of one reader.
struct Catch {
    meter: Meter,
    failure: Option<BenchError>,
    /// Numbers of the messages read, by worker.
    seen: Vec<Seen>,
}

impl Catch {
    fn read(
        mut reader: Reader<'_>,
        (pace, progress): (&Pace<'_>, &Progress),
        run: u64,
        workers: usize,
    ) -> Self {
        let mut seen: Vec<Seen> = Vec::new();
        seen.resize_with(workers, Seen::default);
        let mut meter = Meter::new();
        let mut duplicates = 0;
        let heard = std::cell::Cell::new((0, Instant::now()));
        let is_over = |now| {
            let mut last = heard.get();
            let is_over = progress.is_over(&mut last, now);
            heard.set(last);
            is_over
        };
        let mut take = |meter: &mut Meter, arrival: &Arrival<'_>| {
            let views = records(arrival.body).filter_map(|record| record.ok()?.view());
            let mut ours = 0;
            for (stamp, bytes) in views.filter_map(|v| Some((Stamp::read(v.body)?, v.body.len()))) {
                let Some(seen) = seen.get_mut(stamp.worker as usize) else {
                    continue;
                };
                if stamp.run != run {
                    continue; // a message of another run
                }
                if !seen.add(stamp.number) {
                    duplicates += 1;
                    continue;
                }
                ours += 1;
                let due = pace.at(stamp.due);
                if pace.counts_due(due) {
                    meter.took(arrival.now.saturating_duration_since(due));
                    meter.arrived(pace.since_counting(arrival.now), 1, bytes as u64);
                }
            }
            progress.received.fetch_add(ours, Ordering::Relaxed);
        };
        let failure = reader.read_all(&mut meter, &is_over, &mut take).err();
        meter.total("duplicates", duplicates);
        Self {
            meter,
            failure,
            seen,
        }
    }
}
