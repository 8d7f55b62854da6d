//! Reads ranges over the engine: sends the pulls of the windows, waits for outcomes, and retries.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mq_format::codes::PULL_RETRY_IMMEDIATELY as RETRY;
use tokio::runtime::Handle;

use super::error::{RangeError, Why};
use super::outage::Outage;
use super::plan::Plan;
use super::pull::{Pulled, encode};
use super::window::{Load, Part, Pull, Window, is_gone};
use crate::inbox::{Inbox, Outcome};
use mq_client::credentials::Credentials;
use mq_client::pool::Pool;
use mq_client::settings::PoolSettings;

/// Number of ranges pulled at once: the last pulls of one overlap with the first of the next.
const RANGES_AT_A_TIME: usize = 64;

/// Result of `RangeReader::next`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// The next part of the first range.
    Part(Part),
    /// No part arrived in time; call again.
    Waiting,
    /// The first range is complete. The range added after it is the first one now.
    End,
}

/// Reads ranges for one thread, one after another. Pulls are sent while `next` runs, so call it
/// without long pauses. Dropping the reader closes its connections.
pub struct RangeReader {
    credentials: Option<Credentials>,
    pool: Pool,
    inbox: Arc<Inbox<Pulled>>,
    ranges: VecDeque<Range>,
    /// The number of the first of `ranges`.
    front: u64,
    /// Pulls and bytes of all ranges.
    load: Load,
    /// Pulls without an outcome, by token.
    sent: HashMap<u64, Attempt>,
    next_token: u64,
    /// Failed pulls, and when they are sent again.
    paused: Vec<(Instant, Attempt)>,
    failure: Option<Box<RangeError>>,
}

struct Range {
    plan: Plan,
    window: Window,
}

/// A pull and its failures so far.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    /// The number of its range.
    range: u64,
    pull: Pull,
    outage: Outage,
}

impl RangeReader {
    /// Creates a reader without ranges, whose connections run on `runtime`.
    pub fn new(runtime: Handle, settings: PoolSettings, credentials: Option<Credentials>) -> Self {
        let inbox = Arc::new(Inbox::default());
        Self {
            pool: Pool::new(runtime, settings, inbox.clone()),
            credentials,
            inbox,
            ranges: VecDeque::new(),
            front: 0,
            load: Load::default(),
            sent: HashMap::new(),
            next_token: 0,
            paused: Vec::new(),
            failure: None,
        }
    }

    /// Adds a range after the others. Sends nothing before the next call of `next`.
    pub fn add(&mut self, plan: Plan) {
        let window = Window::new(plan.first, plan.end, plan.rules(), plan.limits);
        self.ranges.push_back(Range { plan, window });
    }

    /// Returns the next part of the first range, in queue order; blocks for at most `timeout`.
    /// Returns `End` without ranges. After an error, every call returns the same error.
    pub fn next(&mut self, timeout: Duration) -> Result<Next, Box<RangeError>> {
        let deadline = Instant::now() + timeout;
        loop {
            for outcome in self.inbox.take() {
                self.settle(outcome, Instant::now());
            }
            if let Some(failure) = &self.failure {
                return Err(failure.clone());
            }
            let Some(first) = self.ranges.front_mut() else {
                return Ok(Next::End);
            };
            let part = first.window.take(&mut self.load);
            let is_done = part.is_none() && first.window.is_done();
            let now = Instant::now();
            self.send(now);
            if let Some(part) = part {
                return Ok(Next::Part(part));
            }
            if is_done {
                self.ranges.pop_front();
                self.front += 1;
                return Ok(Next::End);
            }
            if now >= deadline {
                return Ok(Next::Waiting);
            }
            let retries = self.paused.iter().map(|(at, _)| *at);
            self.inbox.wait(retries.fold(deadline, Instant::min));
        }
    }

    /// Sends failed pulls whose pause has ended, and new pulls.
    fn send(&mut self, now: Instant) {
        let due = self.paused.extract_if(.., |(at, _)| *at <= now);
        let mut attempts: Vec<_> = due.map(|(_, attempt)| attempt).collect();
        self.new_pulls(&mut attempts);
        // All pulls to one address are sent with one write.
        let mut batches: BTreeMap<String, Vec<Attempt>> = BTreeMap::new();
        for attempt in attempts {
            let address = self.address(&attempt).to_owned();
            batches.entry(address).or_default().push(attempt);
        }
        for (address, attempts) in batches {
            self.submit(&address, attempts);
        }
    }

    /// Adds pulls of the first range, and of later ones while the ranges before them need no more.
    fn new_pulls(&mut self, attempts: &mut Vec<Attempt>) {
        let ranges = self.ranges.iter_mut().take(RANGES_AT_A_TIME);
        for (range, Range { window, .. }) in (self.front..).zip(ranges) {
            let is_first = range == self.front;
            while let Some(pull) = window.next_pull(&mut self.load, is_first) {
                attempts.push(Attempt {
                    range,
                    pull,
                    outage: Outage::default(),
                });
            }
            if !window.is_asked_for() {
                return;
            }
        }
    }

    /// Sends pulls to one address.
    fn submit(&mut self, address: &str, attempts: Vec<Attempt>) {
        let mut batch = self.pool.batch();
        for attempt in attempts {
            let plan = &self.ranges[self.index(&attempt)].plan;
            let (account, pull) = (self.credentials.as_ref(), attempt.pull);
            let token = self.next_token;
            self.next_token += 1;
            self.sent.insert(token, attempt);
            batch.add(token, plan.pull_timeout, false, |opaque, out| {
                encode(plan, account, pull, opaque, out);
                Ok::<(), &str>(())
            });
        }
        self.pool.submit(address, batch);
    }

    fn settle(&mut self, outcome: Outcome<Pulled>, now: Instant) {
        let Some(attempt) = self.sent.remove(&outcome.token) else {
            return;
        };
        let is_for_slave = self.is_for_slave(&attempt);
        match outcome.result {
            Ok(reply) if is_for_slave && (is_gone(reply.code) || reply.code == RETRY) => {
                // Only the master decides that offsets are gone, because a slave may lag. A slave
                // without slaveReadEnable answers every pull with the code for "no message
                // matches".
                self.pause(attempt, Why::Behind, now);
            }
            Ok(reply) => {
                let index = self.index(&attempt);
                let window = &mut self.ranges[index].window;
                window.answer(attempt.pull, reply, &mut self.load);
            }
            Err(why) if is_for_slave || why.is_passing() => self.pause(attempt, why, now),
            Err(why) => self.fail(&attempt, why),
        }
    }

    fn pause(&mut self, mut attempt: Attempt, why: Why, now: Instant) {
        let failed = attempt;
        let budget = self.plan(&attempt).outage_budget;
        match attempt.outage.failed(now, budget) {
            Some(at) => self.paused.push((at, attempt)),
            None => self.fail(&failed, why),
        }
    }

    fn fail(&mut self, attempt: &Attempt, why: Why) {
        let (plan, address) = (self.plan(attempt), self.address(attempt));
        let failure = RangeError::new(plan, attempt.pull.offset, address, why);
        self.failure.get_or_insert(Box::new(failure));
    }

    fn is_for_slave(&self, attempt: &Attempt) -> bool {
        let plan = self.plan(attempt);
        let asks_slave = attempt.outage.asks_slave();
        plan.slave.is_some() && (asks_slave || plan.master.is_none())
    }

    fn address(&self, attempt: &Attempt) -> &str {
        let Plan { master, slave, .. } = self.plan(attempt);
        let is_for_slave = self.is_for_slave(attempt);
        let address = if is_for_slave { slave } else { master };
        address.as_deref().unwrap_or_default()
    }

    fn plan(&self, attempt: &Attempt) -> &Plan {
        &self.ranges[self.index(attempt)].plan
    }

    /// Index of an attempt's range. A range stays in the list until all its pulls have an outcome.
    fn index(&self, attempt: &Attempt) -> usize {
        (attempt.range - self.front) as usize
    }
}

impl Drop for RangeReader {
    fn drop(&mut self) {
        self.pool.close();
    }
}
