//! Locks on queues, for orderly consumers.

use std::net::IpAddr;

use crate::operations::server_state::ServerState;
use crate::state::queue_locks::{Granted, QueueName, source_of};

impl ServerState {
    /// Locks queues as far as the limits allow, and counts refusals.
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
}
