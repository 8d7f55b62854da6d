//! Requests and replies that wait: for a message, for the disk, for a flush, or until their client
//! has read earlier replies. They only wait here; `dispatch` continues them.

pub(crate) mod backpressure;
pub(crate) mod long_polls;
pub(crate) mod pending_acks;
pub(crate) mod pull_task;
pub(crate) mod reply_batch;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::bounded_queue::BoundedQueue;
use crate::limits::COLD_QUEUE;
use crate::waiting::backpressure::ParkedRequests;
use crate::waiting::long_polls::LongPolls;
use crate::waiting::pending_acks::{PendingAcks, PendingReply};
use crate::waiting::pull_task::ColdPull;
use mq_base::clock::Clock;

/// What waits in one server.
pub struct WaitingRequests {
    /// Requests that wait for a message.
    pub long_polls: LongPolls,
    /// Pulls that must read from the disk.
    pub cold: BoundedQueue<ColdPull>,
    /// Requests that wait until their clients have read earlier replies.
    pub parked: ParkedRequests,
    /// Replies that wait until their messages are durable. The store's listener shares them.
    pub(crate) pending_acks: Arc<PendingAcks<PendingReply>>,
    /// The runtime on which requests continue; set when the server starts.
    runtime: Mutex<Option<Handle>>,
}

impl WaitingRequests {
    /// `parked_bytes_max`: limit on the requests whose clients have to read replies first.
    pub(crate) fn new(parked_bytes_max: usize, clock: &Arc<dyn Clock>) -> Self {
        Self {
            long_polls: LongPolls::default(),
            cold: BoundedQueue::new(COLD_QUEUE, Arc::clone(clock)),
            parked: ParkedRequests::new(parked_bytes_max),
            pending_acks: Arc::default(),
            runtime: Mutex::default(),
        }
    }

    /// Sets the runtime on which requests continue.
    pub(crate) fn run_on(&self, runtime: Handle) {
        *self.runtime.lock() = Some(runtime);
    }

    /// Runs `work` on the runtime, if the server has started.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = self.runtime.lock().as_ref() {
            runtime.spawn(work);
        }
    }

    /// Number of replies that wait until their messages are durable, and number of replies that
    /// were lost to panics since the start.
    pub fn pending_acks(&self) -> (usize, u64) {
        (self.pending_acks.count(), self.pending_acks.lost())
    }
}
