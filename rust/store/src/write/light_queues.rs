//! How many light queues there are: messages for more than allowed are refused.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::settings::MultiDispatch;
use mq_format::multi_dispatch::is_lmq;

/// Counts queues of the topics `%LMQ%...` on disk, against `maxLmqConsumeQueueNum`.
#[derive(Debug)]
pub(crate) struct LightQueues {
    /// None: light queues are off, and so is the limit.
    most: Option<u32>,
    count: AtomicU32,
}

impl LightQueues {
    pub(crate) fn new(settings: MultiDispatch) -> Self {
        let limited = settings.enabled && settings.lmq_enabled;
        Self {
            most: limited.then_some(settings.lmq_queues_max),
            count: AtomicU32::new(0),
        }
    }

    /// A queue of this topic is there now.
    pub(crate) fn added(&self, topic: &str) {
        self.count
            .fetch_add(is_lmq(topic).into(), Ordering::Relaxed);
    }

    /// A queue of this topic is gone.
    pub(crate) fn removed(&self, topic: &str) {
        self.count
            .fetch_sub(is_lmq(topic).into(), Ordering::Relaxed);
    }

    /// Whether no message may enter further queues. RocketMQ then refuses to read light queues,
    /// too; here what is stored can be read.
    pub(crate) fn are_too_many(&self) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        self.most.is_some_and(|most| count > most)
    }
}
