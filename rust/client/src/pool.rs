//! The pool: sends requests to an address and reports the replies.

use std::sync::Arc;

use rustls::ClientConfig;
use tokio::runtime::Handle;

use super::batch::Batch;
use super::connections::Connections;
use super::events::{Events, Failure};
use super::settings::PoolSettings;
use super::shared::Shared;

/// Connections by address. Call `close` before the runtime ends: dropping a pool closes no socket,
/// because a copy in a forked child must not shut down the parent's connections.
pub struct Pool {
    shared: Arc<Shared>,
    connections: Arc<Connections>,
    runtime: Handle,
}

impl Pool {
    /// A pool whose tasks run on `runtime`.
    pub fn new(runtime: Handle, settings: PoolSettings, events: Arc<dyn Events>) -> Self {
        let shared = Arc::new(Shared::new(settings, events));
        let connections = Arc::new(Connections::new(shared.clone()));
        runtime.spawn(connections.clone().watch_deadlines());
        Self {
            shared,
            connections,
            runtime,
        }
    }

    /// Starts a batch for one or more requests.
    pub fn batch(&self) -> Batch {
        Batch::new(self.shared.clone())
    }

    /// Sends a batch to "host:port" from any thread without blocking; outcomes come as events.
    pub fn submit(&self, address: &str, batch: Batch) {
        let shared = &self.shared;
        let replies = batch.requests.entries.iter().filter(|entry| !entry.oneway);
        let first_deadline = replies.map(|entry| entry.waiter.deadline).min();
        let mut requests = batch.requests;
        while !requests.entries.is_empty() {
            let Some(connection) = self.connections.get_or_open(address, &self.runtime) else {
                shared.fail(requests.entries, &Failure::Closed);
                break;
            };
            match connection.submit(shared, requests) {
                Ok(()) => break,
                // The connection ended after the look-up; the next look-up makes a new one.
                Err(back) => requests = back,
            }
        }
        if let Some(deadline) = first_deadline {
            self.connections.look_at(deadline);
        }
        shared.events.settled();
    }

    /// Sends our reply to a server's request, on the connection to that address.
    pub fn reply(&self, address: &str, frame: Vec<u8>) {
        if let Some(connection) = self.connections.get(address) {
            connection.reply(frame);
        }
    }

    /// Uses other certificates for new connections; open connections stay.
    pub fn renew_tls(&self, tls: Arc<ClientConfig>) {
        self.shared.renew_tls(tls);
    }

    /// Closes every connection and fails every request.
    pub fn close(&self) {
        self.connections.close();
    }
}
