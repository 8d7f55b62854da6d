//! One server: its shared parts, and the requests that wait in it.

use std::ops::Deref;
use std::sync::Arc;

use crate::fair::backpressure::Parked;
use crate::handoff::Handoff;
use crate::handoff::queue::BoundedQueue;
use crate::limits::COLD_QUEUE;
use crate::requests::long_poll::LongPolls;
use crate::requests::pull::ColdPull;
use crate::settings::Settings;
use crate::shared::{Shared, UnknownFamily};
use mq_base::clock::Clock;
use mq_store::Store;

/// Held by the listener, the connections, the cold-read threads, and Python.
pub struct Core {
    shared: Shared,
    /// Queues to Python.
    pub handoff: Handoff,
    /// Long polls.
    pub long_polls: LongPolls,
    /// Pulls that must read from the disk.
    pub cold: BoundedQueue<ColdPull>,
    /// Requests that wait until their clients have read earlier replies.
    pub parked: Parked,
}

impl Core {
    /// Creates the parts that a server needs before it listens.
    ///
    /// # Errors
    /// If a route names a family that does not exist.
    pub fn new(
        settings: Settings,
        store: Option<Arc<Store>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, UnknownFamily> {
        let handoff = Handoff::new(&settings.families, &clock);
        Ok(Arc::new(Self {
            cold: BoundedQueue::new(COLD_QUEUE, Arc::clone(&clock)),
            shared: Shared::new(settings, store, clock)?,
            handoff,
            long_polls: LongPolls::default(),
            parked: Parked::default(),
        }))
    }
}

impl Deref for Core {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}
