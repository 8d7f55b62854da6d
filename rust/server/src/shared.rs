//! The shared parts of one server: settings, tables, connections and counters.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

use crate::conn::budget::Budget;
use crate::conn::client_replies::ClientReplies;
use crate::conn::events::{Event, EventKind};
use crate::conn::peers::{Peer, Peers};
use crate::conn::tls::Tls;
use crate::fair::turn_permits::TurnPermits;
use crate::handoff::gate::Gate;
use crate::handoff::overload::Overload;
use crate::handoff::queue::BoundedQueue;
use crate::limits::EVENTS_MAX;
use crate::requests::known_heartbeats::Heartbeats;
use crate::requests::pending_reply::PendingReply;
use crate::requests::queue_locks::Locks;
use crate::route::{self, Routes};
use crate::settings::Settings;
use crate::stats::Counters;
use crate::tables::Tables;
use crate::tables::answers::Answers;
use crate::traffic::Traffic;
use crate::waiting::pending_acks::PendingAcks;
use mq_base::clock::Clock;
use mq_base::services::Services;
use mq_store::Store;

/// A route names a family that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("request code {code} is routed to family {family:?}, which is not among the families")]
pub struct UnknownFamily {
    /// The code, or -1 for the default family.
    pub code: i32,
    /// The missing family.
    pub family: String,
}

/// Settings, tables and counters, which belong to no single request.
pub struct Shared {
    /// As given at start.
    pub settings: Settings,
    /// Monotonic and wall time.
    pub clock: Arc<dyn Clock>,
    /// The broker's store; None in a NameServer.
    pub store: Option<Arc<Store>>,
    /// The tables that Python published.
    pub tables: Tables,
    /// Reply bodies that Python published.
    pub answers: Answers,
    /// Queue locks.
    pub locks: Locks,
    /// Request code to route.
    pub routes: Routes,
    /// Ends of connections, for Python.
    pub events: BoundedQueue<Event>,
    /// Replies of clients, for Python.
    pub client_replies: ClientReplies,
    /// Open connections.
    pub peers: Peers,
    /// Heartbeats that Python has acknowledged.
    pub heartbeats: Heartbeats,
    /// Replies that wait until their messages are durable. The store's listener shares them.
    pub(crate) pending_acks: Arc<PendingAcks<PendingReply>>,
    /// Counters since the start.
    pub counters: Counters,
    /// Messages stored and read, for the statistics.
    pub traffic: Traffic,
    /// Limits on waiting requests.
    pub overload: Overload,
    /// TLS settings for new connections.
    pub tls: Tls,
    /// Memory budget of large requests.
    pub(crate) budget: Budget,
    /// Permits for turns with long replies.
    pub(crate) turn_permits: TurnPermits,
    /// Failures of the server's threads and tasks.
    pub services: Services,
    /// Closed until Python has imported the code for requests.
    pub gate: Gate,
    /// Set while the server stops; connections are not read any more.
    draining: AtomicBool,
}

impl Shared {
    /// Creates the shared parts of a server before it listens.
    pub(crate) fn new(
        settings: Settings,
        store: Option<Arc<Store>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, UnknownFamily> {
        let overload = Overload::new(settings.families.len());
        let routes = routes(&settings)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            locks: Locks::new(Arc::clone(&clock)),
            events: BoundedQueue::new(EVENTS_MAX, Arc::clone(&clock)),
            client_replies: ClientReplies::new(Arc::clone(&clock)),
            services: Services::default(),
            tls: Tls::new(&settings.tls, settings.connections_max),
            peers: Peers::new(settings.reply_bytes_max),
            budget: Budget::new(settings.large_bytes_max, settings.frame_bytes_max),
            settings,
            clock,
            store,
            tables: Tables::default(),
            answers: Answers::default(),
            routes,
            heartbeats: Heartbeats::default(),
            pending_acks: Arc::default(),
            counters: Counters::default(),
            traffic: Traffic::default(),
            overload,
            turn_permits: TurnPermits::new(cores),
            gate: Gate::default(),
            draining: AtomicBool::new(false),
        })
    }

    /// Writes replies to a client from outside its own task.
    pub(crate) fn write(&self, peer: &Peer, out: &[u8]) {
        if !out.is_empty() {
            self.counters.bytes_out.add(out.len() as u64);
            peer.note_write(self.clock.monotonic_ms());
            peer.send(out);
        }
    }

    /// Reports the end of a connection to Python.
    pub(crate) fn tell(
        &self,
        kind: EventKind,
        peer: Option<&Peer>,
        remote: SocketAddr,
        detail: String,
    ) {
        let connection = peer.map_or(0, |peer| peer.id);
        if self
            .events
            .push_over(Event {
                kind,
                connection,
                remote,
                detail,
            })
            .is_some()
        {
            self.counters.events_lost.one();
        }
    }

    /// Whether sends are refused because the put lock is held too long.
    pub(crate) fn is_page_cache_busy(&self) -> bool {
        let held_ms = self.store.as_ref().map_or(0, |store| store.lock_held_ms());
        self.overload.is_busy(held_ms)
    }

    /// Stops reading all connections.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Memory of requests over 1 MiB that are being received or served, bytes.
    pub fn large_request_bytes(&self) -> usize {
        self.budget.taken_bytes()
    }

    /// Number of replies that wait until their messages are durable, and number of replies that
    /// were lost to panics since the start.
    pub fn pending_acks(&self) -> (usize, u64) {
        (self.pending_acks.count(), self.pending_acks.lost())
    }

    /// Whether connections are no longer read.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}

/// Maps codes to families; an error if a family does not exist.
fn routes(settings: &Settings) -> Result<Routes, UnknownFamily> {
    let families = &settings.families;
    let index = |name: &str| families.iter().position(|(known, _)| known == name);
    let family = |code: i32, family: &String| {
        let unknown = || UnknownFamily {
            code,
            family: family.clone(),
        };
        index(family).ok_or_else(unknown)
    };
    let by_code = settings.routes.iter();
    let by_code = by_code
        .map(|(code, name)| Ok((*code, family(*code, name)?)))
        .collect::<Result<_, UnknownFamily>>()?;
    let default = settings.default_family.as_ref();
    let default = default.map(|name| family(-1, name)).transpose()?;
    Ok(Routes::new(
        settings.kind,
        settings.data_plane,
        by_code,
        default,
        index(route::LARGE),
    ))
}
