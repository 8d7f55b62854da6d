//! The state that operations read and change; locks and heartbeats need nothing else.

use std::net::IpAddr;
use std::sync::Arc;

use crate::state::known_heartbeats::{Heart, Heartbeats};
use crate::state::queue_locks::{Granted, Locks, QueueName, source_of};
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

    /// Locks queues for an orderly consumer, as far as the limits allow, and counts refusals.
    pub fn lock(
        &self,
        group: &str,
        (client_id, address): (&str, IpAddr),
        queues: Vec<QueueName>,
    ) -> Granted {
        let limits = self.tables.broker.with(|row| row.locks).unwrap_or_default();
        let client = (client_id, source_of(address));
        let granted = self.locks.lock(group, client, queues, limits);
        if granted.full.is_some() {
            self.stats.counters.locks_refused.one();
        }
        granted
    }

    /// Whether Python has acknowledged this heartbeat before; then only its time is recorded.
    pub(crate) fn repeats(&self, heart: &Heart, body: &[u8], sender: (u8, i32)) -> bool {
        let beat = self.heartbeats.read(body, sender, heart);
        let is_known = beat.is_some_and(|beat| heart.is_known(beat));
        if is_known {
            heart.answered(self.clock.monotonic_ms());
        }
        is_known
    }
}
