//! The outcomes of pulls, on their way from the engine's threads to the caller's.

use std::time::Instant;

use mq_format::codes::{
    PULL_NOT_FOUND, PULL_OFFSET_MOVED, PULL_RETRY_IMMEDIATELY, SERVICE_NOT_AVAILABLE, SUCCESS,
    SYSTEM_BUSY,
};
use mq_format::remoting::Frame;
use parking_lot::{Condvar, Mutex};

use super::error::Why;
use super::window::Reply;
use crate::events::{Events, Failure};

/// What became of the pull with a token.
pub(super) struct Outcome {
    pub token: u64,
    pub result: Result<Reply, Why>,
}

/// Outcomes that the caller has not taken; one for each pull in flight, at most.
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

    fn put(&self, token: u64, result: Result<Reply, Why>) {
        self.outcomes.lock().push(Outcome { token, result });
    }
}

impl Events for Inbox {
    fn reply(&self, token: u64, reply: &Frame<'_>, _frame: &[u8]) {
        self.put(token, read(reply));
    }

    fn failed(&self, token: u64, failure: Failure) {
        let why = match failure {
            Failure::Unreachable(_) | Failure::Timeout { .. } | Failure::Busy(_) => {
                Why::NoReply(failure)
            }
            Failure::BadFrame(_) | Failure::Closed => Why::Broken(failure.to_string()),
        };
        self.put(token, Err(why));
    }

    fn written(&self, _token: u64) {}

    /// Notices to consumers do not concern a reader without a group.
    fn request(&self, _address: &str, _frame: &[u8]) {}

    fn closed(&self, _address: &str) {}

    fn settled(&self) {
        if !self.outcomes.lock().is_empty() {
            self.arrived.notify_one();
        }
    }
}

/// What a frame says of a pull.
fn read(frame: &Frame<'_>) -> Result<Reply, Why> {
    let remark = || frame.remark.as_deref().unwrap_or_default().to_owned();
    match frame.code {
        SUCCESS | PULL_NOT_FOUND | PULL_RETRY_IMMEDIATELY | PULL_OFFSET_MOVED => {}
        code @ (SYSTEM_BUSY | SERVICE_NOT_AVAILABLE) => {
            let remark = remark();
            return Err(Why::Busy { code, remark });
        }
        code => {
            let remark = remark();
            return Err(Why::Refused { code, remark });
        }
    }
    let next = frame.ext.get("nextBeginOffset").unwrap_or_default();
    let next = next.parse();
    Ok(Reply {
        code: frame.code,
        next: next.map_err(|_| Why::Broken("the reply has no nextBeginOffset".to_owned()))?,
        body: frame.body.to_vec(),
    })
}
