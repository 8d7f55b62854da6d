//! Sending: every worker keeps its window of requests full.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::exchange::Exchange;
use super::pace::{Pace, run_workers};
use super::report::{Meter, Report};
use super::route::{Purpose, Target, targets};
use super::template::{OPAQUE_FIRST, Template};
use super::{BenchError, Produce};
use crate::clock::SystemClock;

/// SUCCESS, and stored with less durability: FLUSH_DISK_TIMEOUT, SLAVE_NOT_AVAILABLE,
/// FLUSH_SLAVE_TIMEOUT.
const STORED: [i32; 4] = [0, 10, 11, 12];

pub(super) fn run(settings: &Produce, stop: &AtomicBool) -> Result<Report, BenchError> {
    let targets = targets(&settings.load, Purpose::Write)?;
    let workers = (0..settings.load.threads)
        .map(|index| Worker::connect(settings, index, &targets[index % targets.len()]))
        .collect::<Result<Vec<_>, _>>()?;
    let pace = Pace::start(&settings.load, stop);
    let meters = run_workers(workers, |worker| worker.run(&pace))?;
    let report = pace.report(meters);
    match (&report.first_refusal, report.refused.keys().next()) {
        (Some(remark), Some(code)) if report.messages == 0 => Err(BenchError::Refused {
            address: targets[0].address.clone(),
            code: *code,
            remark: remark.clone(),
        }),
        _ => Ok(report),
    }
}

/// One connection with its window.
struct Worker<'a> {
    settings: &'a Produce,
    index: u32,
    exchange: Exchange,
    /// One per queue, used in turn.
    templates: Vec<Template>,
    /// When the request in each slot of the window was sent.
    sent_at: Vec<Instant>,
    /// Slots whose request is about to be written.
    fresh: Vec<usize>,
    outgoing: Vec<u8>,
    sent: u64,
    meter: Meter,
}

impl<'a> Worker<'a> {
    fn connect(settings: &'a Produce, index: usize, target: &Target) -> Result<Self, BenchError> {
        Ok(Self {
            settings,
            index: index as u32,
            exchange: Exchange::connect(&target.address, settings.load.timeout())?,
            templates: (0..target.queues)
                .map(|queue| Template::new(settings, queue))
                .collect(),
            sent_at: vec![Instant::now(); settings.in_flight],
            fresh: Vec::with_capacity(settings.in_flight),
            outgoing: Vec::new(),
            sent: index as u64, // workers begin at different queues
            meter: Meter::new(),
        })
    }

    fn run(mut self, pace: &Pace<'_>) -> Result<Meter, BenchError> {
        let clock = SystemClock::shared();
        let mut free: Vec<usize> = (0..self.settings.in_flight).collect();
        let mut waiting = 0;
        loop {
            let now = Instant::now();
            let born_ms = clock.wall_ms();
            while let Some(slot) = free.pop() {
                if !pace.go_on(now, self.settings.batch as u64) {
                    free.clear();
                    break;
                }
                self.prepare(slot, born_ms);
            }
            waiting += self.fresh.len();
            if waiting == 0 {
                return Ok(self.meter);
            }
            self.write(now)?;
            self.exchange.receive()?;
            let before = free.len();
            self.take_replies(pace, &mut free)?;
            waiting -= free.len() - before;
        }
    }

    fn prepare(&mut self, slot: usize, born_ms: i64) {
        let queue = (self.sent % self.templates.len() as u64) as usize;
        let number = (self.index, self.sent, slot as i32);
        self.templates[queue].append(number, born_ms, &mut self.outgoing);
        self.sent += 1;
        self.fresh.push(slot);
    }

    /// Writes everything prepared; one clock reading serves them all.
    fn write(&mut self, now: Instant) -> Result<(), BenchError> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        self.fresh
            .drain(..)
            .for_each(|slot| self.sent_at[slot] = now);
        self.exchange.send(&self.outgoing)?;
        self.outgoing.clear();
        Ok(())
    }

    /// Counts the replies that are here and adds their slots to `free`.
    fn take_replies(&mut self, pace: &Pace<'_>, free: &mut Vec<usize>) -> Result<(), BenchError> {
        let now = Instant::now();
        let counted = pace.counted(now);
        let batch = self.settings.batch as u64;
        while let Some(frame) = self.exchange.next_frame()? {
            if !frame.is_response() {
                continue;
            }
            let slot = frame.opaque.wrapping_sub(OPAQUE_FIRST) as usize;
            let Some(sent_at) = self.sent_at.get(slot) else {
                continue; // nothing we asked for
            };
            free.push(slot);
            match counted {
                Some(at) if STORED.contains(&frame.code) => {
                    let bytes = batch * self.settings.body_bytes as u64;
                    self.meter.count(at, now - *sent_at, batch, bytes);
                }
                Some(_) => {
                    self.meter
                        .refuse(frame.code, frame.remark.as_deref().unwrap_or_default());
                }
                None => {}
            }
        }
        Ok(())
    }
}
