//! What lets connections and their requests in: the gate, TLS, memory for large requests, permits
//! for long turns.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::conn::budget::Budget;
use crate::conn::tls::Tls;
use crate::fair::turn_permits::TurnPermits;
use crate::settings::Settings;

/// Shared by the connections of one server.
pub struct Admission {
    /// Closed until Python has imported the code for requests.
    pub gate: Gate,
    /// TLS settings for new connections.
    pub tls: Tls,
    /// Memory budget of large requests.
    pub(super) budget: Budget,
    /// Permits for turns with long replies.
    pub(super) turn_permits: TurnPermits,
    /// Set while the server stops; connections are not read any more.
    draining: AtomicBool,
}

impl Admission {
    /// Admits connections as the settings say.
    pub fn new(settings: &Settings) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            gate: Gate::default(),
            tls: Tls::new(&settings.tls, settings.connections_max),
            budget: Budget::new(settings.large_bytes_max, settings.frame_bytes_max),
            turn_permits: TurnPermits::new(cores),
            draining: AtomicBool::new(false),
        }
    }

    /// Memory of requests over 1 MiB that are being received or served, bytes.
    pub fn large_request_bytes(&self) -> usize {
        self.budget.taken_bytes()
    }

    /// Stops reading all connections.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether connections are no longer read.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}

/// Decides when connections are accepted. Clients may connect earlier; they wait in the kernel's
/// queue. Open, unless `close` was called.
#[derive(Debug)]
pub struct Gate(watch::Sender<bool>);

impl Default for Gate {
    /// An open gate.
    fn default() -> Self {
        Self(watch::Sender::new(true))
    }
}

impl Gate {
    /// Blocks every task in `passed` from now on.
    pub fn close(&self) {
        self.0.send_replace(false);
    }

    /// Lets all tasks continue.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Returns when the gate is open.
    pub async fn passed(&self) {
        // `wait_for` fails only without a sender, and `self.0` is the sender.
        let _ = self.0.subscribe().wait_for(|is_open| *is_open).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_closed_gate_holds_until_it_opens() {
        let gate = Arc::new(Gate::default());
        gate.passed().await;
        gate.close();
        let waiting = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.passed().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        gate.open();
        waiting.await.unwrap();
    }
}
