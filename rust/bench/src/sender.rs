//! One connection that sends: it keeps its window full, or sends each request when due.

use std::time::{Duration, Instant};

use super::exchange::Exchange;
use super::pace::{Due, Pace, Schedule};
use super::report::Meter;
use super::request::Request;
use super::route::Broker;
use super::stamp::Seen;
use super::template::{OPAQUE_FIRST, Templates};
use super::{BenchError, Produce};
use mq_base::clock::{Clock, SystemClock};

/// SUCCESS, and stored with less durability: FLUSH_DISK_TIMEOUT, SLAVE_NOT_AVAILABLE,
/// FLUSH_SLAVE_TIMEOUT.
const STORED: [i32; 4] = [0, 10, 11, 12];

/// A request in flight.
#[derive(Debug, Clone, Copy)]
struct Slot {
    due: Instant,
    sent_at: Instant,
    number: u64,
    is_waiting: bool,
}

/// One connection with its window.
pub(super) struct Sender<'a> {
    settings: &'a Produce,
    index: u32,
    exchange: Exchange,
    broker: &'a Broker,
    templates: Templates<'a>,
    schedule: Schedule,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Slots whose request is about to be written.
    fresh: Vec<usize>,
    /// Number of requests made.
    requests: u64,
    tally: Tally,
    meter: Meter,
}

/// Counts of messages of the whole run.
#[derive(Debug, Default)]
struct Tally {
    acknowledged: u64,
    refused: u64,
    /// Numbers of the acknowledged messages, in a run that checks each one.
    seen: Option<Seen>,
}

/// The results of a worker.
pub(super) struct Ended {
    pub meter: Meter,
    pub failure: Option<BenchError>,
    pub exchange: Exchange,
    pub seen: Option<Seen>,
}

impl<'a> Sender<'a> {
    /// Worker `index` of the run; `run` is the number in the stamps of its messages.
    pub fn connect(
        settings: &'a Produce,
        index: usize,
        broker: &'a Broker,
        run: Option<u64>,
    ) -> Result<Self, BenchError> {
        let load = &settings.load;
        let now = Instant::now();
        let slot = Slot {
            due: now,
            sent_at: now,
            number: 0,
            is_waiting: false,
        };
        let rate = settings.rate / settings.batch as f64;
        Ok(Self {
            settings,
            index: index as u32,
            exchange: Exchange::to_broker(&broker.address, load)?,
            broker,
            templates: Templates::new(settings, run),
            schedule: Schedule::new(rate, index, load.threads),
            slots: vec![slot; settings.in_flight],
            free: (0..settings.in_flight).rev().collect(),
            fresh: Vec::with_capacity(settings.in_flight),
            requests: 0,
            tally: Tally {
                seen: run.map(|_| Seen::default()),
                ..Tally::default()
            },
            meter: Meter::new(),
        })
    }

    pub fn run(mut self, pace: &Pace<'_>) -> Ended {
        let failure = self.send_all(pace).err();
        if let Some(failure) = &failure {
            self.meter.fail(failure);
        }
        let batch = self.settings.batch as u64;
        let waiting = self.slots.iter().filter(|slot| slot.is_waiting).count() as u64;
        let left = self.schedule.left(pace, Instant::now(), batch);
        self.meter.total("sent", self.requests * batch);
        self.meter.total("acknowledged", self.tally.acknowledged);
        self.meter.total("refused", self.tally.refused);
        self.meter.total("unanswered", waiting * batch);
        self.meter.total("unsent", left * batch);
        Ended {
            meter: self.meter,
            failure,
            exchange: self.exchange,
            seen: self.tally.seen,
        }
    }

    fn send_all(&mut self, pace: &Pace<'_>) -> Result<(), BenchError> {
        let clock = SystemClock::shared();
        let mut quiet_since = Instant::now();
        loop {
            let now = Instant::now();
            let next = self.fill(pace, now, clock.as_ref())?;
            self.write(pace, now)?;
            if !self.is_waiting() {
                quiet_since = now;
                match next {
                    Due::Over => return Ok(()),
                    Due::Now(_) => continue, // oneway: there is always room
                    Due::At(_) => {}
                }
            }
            let limit = now + self.settings.load.timeout();
            let heard = match next {
                Due::At(due) => self.exchange.receive_until(due.min(limit))?,
                _ if self.exchange.is_writing() => self.exchange.receive_until(limit)?,
                _ => self.exchange.receive()?,
            };
            if heard {
                self.take_replies(pace)?;
            } else if self.is_waiting() {
                self.exchange.check_alive(Instant::now(), quiet_since)?;
            }
        }
    }

    /// Whether a reply is outstanding, or bytes wait to be written.
    fn is_waiting(&self) -> bool {
        self.exchange.is_writing() || self.free.len() < self.slots.len()
    }

    /// Prepares the requests that are due and fit the window; returns what to do next.
    fn fill(
        &mut self,
        pace: &Pace<'_>,
        now: Instant,
        clock: &dyn Clock,
    ) -> Result<Due, BenchError> {
        let batch = self.settings.batch as u64;
        if self.exchange.is_writing() {
            return Ok(Due::Now(now)); // the socket is full: write no more requests
        }
        let mut born_ms = None;
        while let Some(slot) = self.free.pop() {
            match self.schedule.next(pace, now, batch) {
                Due::Now(due) => {
                    let born_ms = *born_ms.get_or_insert_with(|| clock.wall_ms());
                    self.prepare(slot, due, pace.since_begin(due), born_ms)?;
                }
                wait => {
                    self.free.push(slot);
                    return Ok(wait);
                }
            }
        }
        Ok(Due::Now(now))
    }

    fn prepare(
        &mut self,
        slot: usize,
        due: Instant,
        after: Duration,
        born_ms: i64,
    ) -> Result<(), BenchError> {
        // Each worker begins at another queue.
        let turn = self.requests + u64::from(self.index);
        let queue = self.broker.queues[(turn % self.broker.queues.len() as u64) as usize];
        let request = Request {
            worker: self.index,
            number: self.requests,
            slot,
            topic: queue.topic,
            queue: queue.id,
            due: after,
            born_ms,
        };
        self.templates.append(&request, self.exchange.outgoing())?;
        self.slots[slot].due = due;
        self.slots[slot].number = self.requests;
        self.requests += 1;
        self.fresh.push(slot);
        Ok(())
    }

    /// Writes all prepared requests; one clock reading serves them all.
    fn write(&mut self, pace: &Pace<'_>, now: Instant) -> Result<(), BenchError> {
        if !self.exchange.is_writing() {
            return Ok(());
        }
        for index in &self.fresh {
            let slot = &mut self.slots[*index];
            slot.sent_at = now;
            slot.is_waiting = true;
        }
        self.exchange.flush()?;
        if !self.settings.oneway {
            self.fresh.clear();
        } else if !self.exchange.is_writing() {
            self.count_written(pace);
        }
        Ok(())
    }

    /// A oneway message is done when it is written.
    fn count_written(&mut self, pace: &Pace<'_>) {
        let now = Instant::now();
        for index in std::mem::take(&mut self.fresh) {
            self.done(pace, now, index);
        }
    }

    /// Counts the received replies and frees their slots.
    fn take_replies(&mut self, pace: &Pace<'_>) -> Result<(), BenchError> {
        let now = Instant::now();
        let batch = self.settings.batch as u64;
        loop {
            let Some(frame) = self.exchange.next_frame()? else {
                return Ok(());
            };
            let index = frame.opaque.wrapping_sub(OPAQUE_FIRST) as usize;
            let is_ours = self.slots.get(index).is_some_and(|slot| slot.is_waiting);
            if !frame.is_response() || !is_ours {
                continue; // the broker's own request
            }
            let code = frame.code;
            if STORED.contains(&code) {
                drop(frame);
                if code != 0 {
                    self.meter.store_lesser(code);
                }
                self.done(pace, now, index);
                continue;
            }
            let remark = frame.remark.as_deref().unwrap_or_default();
            self.meter.refuse(code, remark);
            self.tally.refused += batch;
            self.slots[index].is_waiting = false;
            self.free.push(index);
        }
    }

    /// Counts a request that is done, and frees its slot.
    fn done(&mut self, pace: &Pace<'_>, now: Instant, index: usize) {
        let batch = self.settings.batch as u64;
        let Slot {
            due,
            sent_at,
            number,
            ..
        } = self.slots[index];
        self.slots[index].is_waiting = false;
        self.free.push(index);
        self.tally.acknowledged += batch;
        if let Some(seen) = &mut self.tally.seen {
            (number * batch..(number + 1) * batch).for_each(|number| _ = seen.add(number));
        }
        let counted = if self.schedule.is_open() {
            pace.counts_due(due).then(|| pace.since_counting(now))
        } else {
            pace.counted(now)
        };
        let Some(at) = counted else { return };
        let bytes = batch * self.settings.body_bytes as u64;
        self.meter.count(at, now - due, batch, bytes);
        if self.schedule.is_open() {
            self.meter.note("service_us", now - sent_at);
            self.meter.note("send_delay_us", sent_at - due);
        }
    }
}
