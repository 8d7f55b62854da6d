//! One server: what its parts share, and the requests that wait in it.

use std::ops::Deref;
use std::sync::Arc;

use crate::fair::backpressure::Parked;
use crate::handoff::Handoff;
use crate::handoff::queue::BoundedQueue;
use crate::limits::COLD_QUEUE;
use crate::requests::hold::Holds;
use crate::requests::pull::ColdPull;
use crate::settings::Settings;
use crate::shared::{Shared, UnknownFamily};
use mq_base::clock::Clock;
use mq_store::Store;

/// Held by the listener, the connections, the threads that may wait for the disk, and Python.
pub struct Core {
    shared: Shared,
    /// Queues to Python.
    pub handoff: Handoff,
    /// Long polls.
    pub holds: Holds,
    /// Pulls that need the disk.
    pub cold: BoundedQueue<ColdPull>,
    /// Requests that wait until their clients have read.
    pub parked: Parked,
}

impl Core {
    /// Everything a server needs before it listens.
    ///
    /// # Errors
    /// A route names a family that is not there.
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
            holds: Holds::default(),
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
