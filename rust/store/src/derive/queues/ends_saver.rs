//! Saves where each queue ends, so that a start notices a queue that lost entries.

use std::sync::Arc;

use parking_lot::Mutex;

use super::table::ConsumeQueues;
use crate::derive::dispatch::Progress;
use crate::directory::queue_ends::QueueEnds;
use crate::threads::periodic::Every;
use crate::types::StoreError;
use crate::write::ack::Acks;

/// Interval of saving the ends of the queues, milliseconds.
const SAVE_ENDS_MS: u64 = 60_000;

/// Saves the ends of the queues after their records have been flushed.
pub(crate) struct EndsSaver {
    queues: Arc<ConsumeQueues>,
    progress: Arc<Progress>,
    acks: Arc<Acks>,
    every: Every,
    ends: Mutex<Ends>,
}

struct Ends {
    /// Ends whose records may not have been flushed.
    waiting: Option<QueueEnds>,
    /// End of the log when the ends were last read.
    log_end: u64,
}

impl EndsSaver {
    /// A start has recorded the ends of a log that ends at `log_end`.
    pub(crate) fn new(
        (queues, progress): (Arc<ConsumeQueues>, Arc<Progress>),
        acks: Arc<Acks>,
        log_end: u64,
        now_ms: i64,
    ) -> Self {
        let every = Every::new(SAVE_ENDS_MS);
        every.is_due(now_ms);
        let ends = Ends {
            waiting: None,
            log_end,
        };
        Self {
            queues,
            progress,
            acks,
            every,
            ends: Mutex::new(ends),
        }
    }

    /// Saves the ends, once per interval, if messages arrived since the last call.
    pub(crate) fn save_when_due(&self, now_ms: i64) -> Result<(), StoreError> {
        let mut ends = self.ends.lock();
        let dispatched = self.progress.dispatched();
        if self.every.is_due(now_ms) && dispatched != ends.log_end {
            ends.log_end = dispatched;
            ends.waiting = Some(self.queues.ends(dispatched));
        }
        let flushed = self.acks.flushed();
        let durable = ends.waiting.take_if(|ends| ends.log_end <= flushed);
        durable.map_or(Ok(()), |ends| ends.save(&self.queues.shared.root))
    }
}
