//! The outcomes of sends, on their way from the engine's threads to the caller's.

use std::time::Instant;

use mq_format::codes::{FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE, SUCCESS};
use mq_format::remoting::Frame;
use parking_lot::{Condvar, Mutex};

use super::error::Why;
use crate::events::{Events, Failure};

/// What became of the send with a token: the queue offset of its first message, or why not.
pub(super) struct Outcome {
    pub token: u64,
    pub result: Result<i64, Why>,
}

/// Outcomes that the caller has not taken; one for each send in flight, at most.
#[derive(Default)]
pub(super) struct Inbox {
    outcomes: Mutex<Vec<Outcome>>,
    arrived: Condvar,
}

impl Inbox {
    /// Takes what has come.
    pub fn take(&self) -> Vec<Outcome> {
        std::mem::take(&mut self.outcomes.lock())
    }

    /// Waits until there is something to take, or until `deadline`.
    pub fn wait(&self, deadline: Instant) {
        let mut outcomes = self.outcomes.lock();
        let is_empty = |outcomes: &mut Vec<Outcome>| outcomes.is_empty();
        self.arrived
            .wait_while_until(&mut outcomes, is_empty, deadline);
    }

    fn put(&self, token: u64, result: Result<i64, Why>) {
        self.outcomes.lock().push(Outcome { token, result });
    }
}

impl Events for Inbox {
    fn reply(&self, token: u64, reply: &Frame<'_>, _frame: &[u8]) {
        self.put(token, read(reply));
    }

    fn failed(&self, token: u64, failure: Failure) {
        self.put(token, Err(Why::Failed(failure)));
    }

    fn written(&self, _token: u64) {}

    /// A writer has no transactions, about which brokers would ask.
    fn request(&self, _address: &str, _frame: &[u8]) {}

    fn closed(&self, _address: &str) {}

    fn settled(&self) {
        if !self.outcomes.lock().is_empty() {
            self.arrived.notify_one();
        }
    }
}

/// What a frame says of a send. The three codes beside success say "stored" too.
fn read(frame: &Frame<'_>) -> Result<i64, Why> {
    if let SUCCESS | FLUSH_DISK_TIMEOUT | SLAVE_NOT_AVAILABLE | FLUSH_SLAVE_TIMEOUT = frame.code {
        let offset = frame.ext.get("queueOffset").unwrap_or_default();
        let no_offset = |_| Failure::BadFrame("the reply to a send has no queueOffset".to_owned());
        return offset.parse().map_err(no_offset).map_err(Why::Failed);
    }
    Err(Why::Refused {
        code: frame.code,
        remark: frame.remark.as_deref().unwrap_or_default().to_owned(),
    })
}
