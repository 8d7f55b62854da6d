//! Writes rows over the engine: sends batches, waits for outcomes, and retries.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::encoder::wall_ms;
use super::error::WriteError;
use super::flight::Attempt;
use super::ids::IdOrigin;
use super::plan::Plan;
use super::rows::Rows;
use super::send::{Sender, Sent};
use super::task::{Progress, Receipt, Task};
use super::topics::{Queue, Routes};
use crate::inbox::Inbox;
use mq_client::credentials::Credentials;
use mq_client::pool::Pool;
use mq_client::settings::PoolSettings;

/// Writes the rows of one task after another, for one thread. The connections stay open between
/// tasks; dropping the writer closes them.
pub struct Writer {
    credentials: Option<Credentials>,
    pool: Pool,
    inbox: Arc<Inbox<Sent>>,
    /// The token of the next send; tokens of a writer are unique.
    token: u64,
    task: Task,
}

impl Writer {
    /// Creates a writer whose connections run on `runtime`.
    pub fn new(
        runtime: Handle,
        settings: PoolSettings,
        credentials: Option<Credentials>,
        plan: Plan,
    ) -> Self {
        let inbox = Arc::new(Inbox::default());
        Self {
            credentials,
            pool: Pool::new(runtime, settings, inbox.clone()),
            inbox,
            token: 0,
            task: Task::new(plan),
        }
    }

    /// Starts another task, with its own row ids and message ids. Drops unfinished work of the task
    /// before.
    pub fn start(&mut self, row_id: String, ids: IdOrigin) {
        let plan = self.task.plan.clone();
        self.task = Task::new(Plan {
            row_id,
            ids,
            ..plan
        });
    }

    /// Adds rows from `next` on until enough wait to be sent. Returns the row to add next, after
    /// `step`. After an error the task cannot continue.
    pub fn add(
        &mut self,
        rows: &Rows<'_>,
        next: usize,
        routes: &mut dyn Routes,
    ) -> Result<usize, WriteError> {
        self.task.add(rows, next, routes)
    }

    /// Ends the rows of the task.
    pub fn close(&mut self) {
        self.task.close();
    }

    /// Sends batches. Returns true when there is room for more rows; after `close`, when all rows
    /// are stored. Blocks for at most `timeout`. After an error the task cannot continue.
    pub fn step(
        &mut self,
        routes: &mut dyn Routes,
        timeout: Duration,
        is_closed: bool,
    ) -> Result<bool, WriteError> {
        let deadline = Instant::now() + timeout;
        loop {
            self.take_outcomes()?;
            let now = Instant::now();
            for (attempt, queue) in self.task.next_sends(now, routes) {
                self.send(attempt, queue);
            }
            let is_ready = match is_closed {
                true => self.task.is_done(),
                false => self.task.has_room(),
            };
            if is_ready || now >= deadline {
                return Ok(is_ready);
            }
            let wake = self.task.wakes_at(now);
            self.inbox
                .wait(wake.map_or(deadline, |at| at.min(deadline)));
        }
    }

    fn take_outcomes(&mut self) -> Result<(), WriteError> {
        let (now, mut result) = (Instant::now(), Ok(()));
        for outcome in self.inbox.take() {
            result = result.and(self.task.settle(outcome, now));
        }
        result
    }

    fn send(&mut self, attempt: Attempt, queue: Queue) {
        let token = self.token;
        self.token += 1;
        let plan = &self.task.plan;
        let (outgoing, timeout) = (&attempt.outgoing, plan.request_timeout);
        let sender = Sender {
            group: &plan.group,
            credentials: self.credentials.as_ref(),
        };
        let mut batch = self.pool.batch();
        batch.add(token, timeout, false, |opaque, out| {
            sender.encode(outgoing, &queue, wall_ms(), opaque, out)
        });
        let address = queue.address.clone();
        self.task.sent(token, attempt, queue);
        self.pool.submit(&address, batch);
    }

    /// After an error: waits for the outcomes of the sends in flight, so that `progress` is right.
    pub fn settle(&mut self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        while self.task.is_awaited() && Instant::now() < deadline {
            self.inbox.wait(deadline);
            // The first error is known already; later ones add nothing.
            let _ = self.take_outcomes();
        }
    }

    /// Progress of the task.
    pub fn progress(&self) -> Progress {
        self.task.progress()
    }

    /// Returns the rows that were stored since the last call.
    pub fn take_receipts(&mut self) -> Vec<Receipt> {
        std::mem::take(&mut self.task.receipts)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.pool.close();
    }
}
