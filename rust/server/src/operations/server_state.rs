//! The state that operations read and change.

use std::sync::Arc;

use crate::state::known_heartbeats::Heartbeats;
use crate::state::queue_locks::Locks;
use crate::stats::Stats;
use crate::tables::Tables;
use mq_base::clock::Clock;
use mq_store::Store;

/// The store, the published tables, and what the server itself remembers of clients.
pub struct ServerState {
    /// Monotonic and wall time.
    pub clock: Arc<dyn Clock>,
    /// The broker's store; None in a NameServer.
    pub store: Option<Arc<Store>>,
    /// The tables that Python published.
    pub tables: Tables,
    /// Queue locks.
    pub locks: Locks,
    /// Heartbeats that Python has acknowledged.
    pub heartbeats: Heartbeats,
    pub(crate) stats: Arc<Stats>,
}

impl ServerState {
    pub(crate) fn new(store: Option<Arc<Store>>, clock: Arc<dyn Clock>, stats: Arc<Stats>) -> Self {
        Self {
            locks: Locks::new(Arc::clone(&clock)),
            clock,
            store,
            tables: Tables::default(),
            heartbeats: Heartbeats::default(),
            stats,
        }
    }

    /// Milliseconds for which the put lock of the store has been held; 0 without a store.
    pub(crate) fn lock_held_ms(&self) -> i64 {
        self.store.as_ref().map_or(0, |store| store.lock_held_ms())
    }
}
