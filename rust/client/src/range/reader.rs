//! Reads a range over the engine: sends the window's pulls, waits for outcomes, tries again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mq_format::codes::PULL_RETRY_IMMEDIATELY;
use tokio::runtime::Handle;

use super::error::{RangeError, Why};
use super::inbox::{Inbox, Outcome};
use super::outage::Outage;
use super::plan::{Plan, Subscription};
use super::request::encode;
use super::window::{Part, Pull, Window, is_gone};
use crate::credentials::Credentials;
use crate::pool::Pool;
use crate::settings::PoolSettings;

/// What `RangeReader::next` found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// The next part of the range.
    Part(Part),
    /// Nothing came in time; ask again.
    Waiting,
    /// The range is read.
    End,
}

/// Reads one range for one thread. Pulls are sent while `next` runs, so call it without long
/// pauses. Dropping the reader closes its connections.
pub struct RangeReader {
    plan: Plan,
    credentials: Option<Credentials>,
    pool: Pool,
    inbox: Arc<Inbox>,
    window: Window,
    /// Pulls without an outcome, by block.
    sent: HashMap<u64, Attempt>,
    /// Failed pulls, and when they are sent again.
    paused: Vec<(Instant, Attempt)>,
    failure: Option<RangeError>,
}

/// A pull, and what failed of it before.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    pull: Pull,
    outage: Option<Outage>,
}

impl RangeReader {
    /// A reader whose connections run on `runtime`. Sends nothing before `next`.
    pub fn new(
        runtime: Handle,
        settings: PoolSettings,
        credentials: Option<Credentials>,
        plan: Plan,
    ) -> Self {
        let inbox = Arc::new(Inbox::default());
        Self {
            pool: Pool::new(runtime, settings, inbox.clone()),
            window: Window::new(plan.first, plan.end, plan.rules(), plan.limits),
            plan,
            credentials,
            inbox,
            sent: HashMap::new(),
            paused: Vec::new(),
            failure: None,
        }
    }

    /// The next part in queue order; blocks for `timeout` at most. After an error, the same error.
    pub fn next(&mut self, timeout: Duration) -> Result<Next, RangeError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(failure) = &self.failure {
                return Err(failure.clone());
            }
            for outcome in self.inbox.take() {
                self.settle(outcome, Instant::now());
            }
            if self.failure.is_some() {
                continue;
            }
            let part = self.window.take();
            let now = Instant::now();
            self.send(now);
            if let Some(part) = part {
                return Ok(Next::Part(part));
            }
            if self.window.is_done() {
                return Ok(Next::End);
            }
            if now >= deadline {
                return Ok(Next::Waiting);
            }
            let retries = self.paused.iter().map(|(at, _)| *at);
            self.inbox.wait(retries.fold(deadline, Instant::min));
        }
    }

    /// Sends the failed pulls whose pause is over, and new ones.
    fn send(&mut self, now: Instant) {
        let due = self.paused.extract_if(.., |(at, _)| *at <= now);
        let mut attempts: Vec<_> = due.map(|(_, attempt)| attempt).collect();
        while let Some(pull) = self.window.next_pull() {
            attempts.push(Attempt { pull, outage: None });
        }
        let (slave, master): (Vec<_>, Vec<_>) = attempts
            .into_iter()
            .partition(|attempt| self.is_for_slave(attempt));
        for attempts in [master, slave] {
            self.submit(attempts);
        }
    }

    /// Sends pulls of one address.
    fn submit(&mut self, attempts: Vec<Attempt>) {
        let Some(first) = attempts.first() else {
            return;
        };
        let address = self.address(first).to_owned();
        let mut batch = self.pool.batch();
        for attempt in attempts {
            let (plan, account) = (&self.plan, self.credentials.as_ref());
            let pull = attempt.pull;
            self.sent.insert(pull.block, attempt);
            batch.add(pull.block, plan.pull_timeout, false, |opaque, out| {
                encode(plan, account, pull, opaque, out);
                Ok::<(), &str>(())
            });
        }
        self.pool.submit(&address, batch);
    }

    fn settle(&mut self, outcome: Outcome, now: Instant) {
        let Some(attempt) = self.sent.remove(&outcome.token) else {
            return;
        };
        let is_for_slave = self.is_for_slave(&attempt);
        match outcome.result {
            Ok(reply) if is_for_slave && self.is_without(reply.code) => {
                // A slave may be behind its master; only the master says what is gone.
                let why = "a slave does not have this offset".to_owned();
                self.pause(attempt, Why::Outage(why), now);
            }
            Ok(reply) => self.window.answer(attempt.pull, reply),
            Err(why) if is_for_slave || matches!(why, Why::Outage(_)) => {
                self.pause(attempt, why, now);
            }
            Err(why) => self.fail(&attempt, why),
        }
    }

    fn pause(&mut self, mut attempt: Attempt, why: Why, now: Instant) {
        let failed = attempt;
        let outage = attempt.outage.get_or_insert_with(|| Outage::new(now));
        match outage.failed(now, self.plan.outage_budget) {
            Some(at) => self.paused.push((at, attempt)),
            None => self.fail(&failed, why),
        }
    }

    fn fail(&mut self, attempt: &Attempt, why: Why) {
        let address = self.address(attempt);
        let failure = RangeError::new(&self.plan, attempt.pull.offset, address, why);
        self.failure.get_or_insert(failure);
    }

    /// Whether a reply with this code brings no message though the range has one there.
    fn is_without(&self, code: i32) -> bool {
        let is_filtered = self.plan.subscription != Subscription::All;
        is_gone(code) || (code == PULL_RETRY_IMMEDIATELY && !is_filtered)
    }

    fn is_for_slave(&self, attempt: &Attempt) -> bool {
        let asks_slave = attempt.outage.is_some_and(|outage| outage.asks_slave());
        asks_slave && self.plan.slave.is_some()
    }

    fn address(&self, attempt: &Attempt) -> &str {
        let slave = self.plan.slave.as_deref();
        let slave = slave.filter(|_| self.is_for_slave(attempt));
        slave.unwrap_or(&self.plan.master)
    }
}

impl Drop for RangeReader {
    fn drop(&mut self) {
        self.pool.close();
    }
}
