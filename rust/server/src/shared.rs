//! What every part of one server shares: settings, tables, connections and counters.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

use crate::conn::budget::Budget;
use crate::conn::client_replies::ClientReplies;
use crate::conn::events::{Event, EventKind};
use crate::conn::peers::{Peer, Peers};
use crate::conn::tls::Tls;
use crate::fair::turns::LongTurns;
use crate::handoff::gate::Gate;
use crate::handoff::overload::Overload;
use crate::handoff::queue::BoundedQueue;
use crate::limits::EVENTS_MAX;
use crate::requests::known_heartbeats::Heartbeats;
use crate::requests::queue_locks::Locks;
use crate::route::{self, Routes};
use crate::settings::Settings;
use crate::stats::Counters;
use crate::tables::Tables;
use crate::tables::answers::Answers;
use crate::traffic::Traffic;
use mq_base::clock::Clock;
use mq_base::services::Services;
use mq_store::Store;

/// Settings that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("request code {code} is routed to family {family:?}, which is not among the families")]
pub struct UnknownFamily {
    /// The code, or -1 for the default family.
    pub code: i32,
    /// The family it names.
    pub family: String,
}

/// Settings, tables and counters: everything that belongs to no request.
pub struct Shared {
    /// As given at start.
    pub settings: Settings,
    /// Monotonic and wall time.
    pub clock: Arc<dyn Clock>,
    /// The broker's store; None in a NameServer.
    pub store: Option<Arc<Store>>,
    /// What Python published.
    pub tables: Tables,
    /// Ready-made bodies.
    pub answers: Answers,
    /// Queue locks.
    pub locks: Locks,
    /// Code to route.
    pub routes: Routes,
    /// Connection events for Python.
    pub events: BoundedQueue<Event>,
    /// Replies of clients, for Python.
    pub client_replies: ClientReplies,
    /// Open connections.
    pub peers: Peers,
    /// Which heartbeats Python knows.
    pub heartbeats: Heartbeats,
    /// What was counted.
    pub counters: Counters,
    /// Messages stored and read, for the statistics.
    pub traffic: Traffic,
    /// What may wait, and how long.
    pub overload: Overload,
    /// What connections are shown.
    pub tls: Tls,
    /// What large requests may take together.
    pub(crate) budget: Budget,
    /// Places of connections that ask for more than a short turn takes.
    pub(crate) long_turns: LongTurns,
    /// Threads and tasks of the server, as far as they failed.
    pub services: Services,
    /// Closed while Python still imports what requests need.
    pub gate: Gate,
    /// Set while stopping: connections are not read any more.
    draining: AtomicBool,
}

impl Shared {
    /// Everything a server needs before it listens, but for what waits.
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
            budget: Budget::new(settings.large_bytes_max, settings.frame_bytes_max),
            settings,
            clock,
            store,
            tables: Tables::default(),
            answers: Answers::default(),
            routes,
            peers: Peers::default(),
            heartbeats: Heartbeats::default(),
            counters: Counters::default(),
            traffic: Traffic::default(),
            overload,
            long_turns: LongTurns::new(cores),
            gate: Gate::default(),
            draining: AtomicBool::new(false),
        })
    }

    /// Writes answers to a client outside its own task.
    pub(crate) fn write(&self, peer: &Peer, out: &[u8]) {
        if !out.is_empty() {
            self.counters.bytes_out.add(out.len() as u64);
            peer.note_write(self.clock.monotonic_ms());
            peer.send(out);
        }
    }

    /// Tells Python of a connection's end.
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

    /// Whether sends are refused for now: the log's lock is held for too long.
    pub(crate) fn is_page_cache_busy(&self) -> bool {
        let held_ms = self.store.as_ref().map_or(0, |store| store.lock_held_ms());
        self.overload.is_busy(held_ms)
    }

    /// From now on no connection is read.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Bytes of requests over 1 MiB that are being received or served, of all connections.
    pub fn large_request_bytes(&self) -> usize {
        self.budget.taken_bytes()
    }

    /// Whether connections are not to be read any more.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}

/// Where requests go, if every family that is named is there.
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
