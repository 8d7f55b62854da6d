//! One server: its parts, each with the one thing that it owns.

use std::sync::Arc;

use crate::clients::Clients;
use crate::handoff::Handoff;
use crate::operations::server_state::ServerState;
use crate::route::{Routes, UnknownFamily};
use crate::settings::Settings;
use crate::stats::Stats;
use crate::waiting::WaitingRequests;
use mq_base::clock::Clock;
use mq_store::Store;

/// Held by the listener, the connections, the cold-read threads, and Python.
pub struct Core {
    /// As given at start.
    pub settings: Settings,
    /// Monotonic and wall time.
    pub clock: Arc<dyn Clock>,
    /// What is counted since the start.
    pub stats: Arc<Stats>,
    /// Request code to route.
    pub routes: Routes,
    /// The store, the published tables, locks and heartbeats.
    pub state: ServerState,
    /// Connections, and what the server exchanges with their clients.
    pub clients: Clients,
    /// Requests in Python's hands.
    pub handoff: Handoff,
    /// Requests and replies that wait for something else.
    pub waiting: WaitingRequests,
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
        let stats = Arc::<Stats>::default();
        Ok(Arc::new(Self {
            routes: Routes::of(&settings)?,
            state: ServerState::new(store, Arc::clone(&clock), Arc::clone(&stats)),
            clients: Clients::new(settings.reply_bytes_max, &clock, &stats),
            handoff: Handoff::new(&settings.families, settings.handoff_bytes_max, &clock),
            // Half, so that clients that read still find room.
            waiting: WaitingRequests::new(settings.handoff_bytes_max / 2, &clock),
            settings,
            clock,
            stats,
        }))
    }

    /// Whether sends are refused because the put lock is held too long.
    pub(crate) fn is_page_cache_busy(&self) -> bool {
        self.handoff.overload.is_busy(self.state.lock_held_ms())
    }
}
