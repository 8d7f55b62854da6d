//! What every part of one server shares.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

use crate::conn::budget::Budget;
use crate::conn::events::{Event, EventKind};
use crate::conn::peers::{Peer, Peers};
use crate::conn::tls::Tls;
use crate::fair::backpressure;
use crate::fair::turns::LongTurns;
use crate::handoff::Handoff;
use crate::handoff::gate::Gate;
use crate::handoff::overload::Overload;
use crate::handoff::queue::BoundedQueue;
use crate::limits::{COLD_QUEUE, EVENTS_MAX};
use crate::requests::heartbeat::Heartbeats;
use crate::requests::hold::Holds;
use crate::requests::locks::Locks;
use crate::requests::pull::ColdPull;
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

/// Shared by the listener, the connections, the holds and the Python door.
pub struct Core {
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
    /// Queues to Python.
    pub handoff: Handoff,
    /// Connection events for Python.
    pub events: BoundedQueue<Event>,
    /// Open connections.
    pub peers: Peers,
    /// Long polls.
    pub holds: Holds,
    /// Which heartbeats Python knows.
    pub heartbeats: Heartbeats,
    /// Pulls that need the disk.
    pub cold: BoundedQueue<ColdPull>,
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

impl Core {
    /// Everything a server needs before it listens.
    pub fn new(
        settings: Settings,
        store: Option<Arc<Store>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, UnknownFamily> {
        let handoff = Handoff::new(&settings.families);
        let overload = Overload::new(settings.families.len());
        let family = |code: i32, family: &String| {
            let unknown = || UnknownFamily {
                code,
                family: family.clone(),
            };
            handoff.index(family).ok_or_else(unknown)
        };
        let by_code = settings.routes.iter();
        let families = by_code
            .map(|(code, name)| Ok((*code, family(*code, name)?)))
            .collect::<Result<_, UnknownFamily>>()?;
        let default = settings
            .default_family
            .as_ref()
            .map(|name| family(-1, name))
            .transpose()?;
        let routes = Routes::new(
            settings.kind,
            settings.data_plane,
            families,
            default,
            handoff.index(route::LARGE),
        );
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Arc::new(Self {
            locks: Locks::new(Arc::clone(&clock)),
            services: Services::default(),
            tls: Tls::new(&settings.tls, settings.connections_max),
            budget: Budget::new(settings.large_bytes_max, settings.frame_bytes_max),
            settings,
            clock,
            store,
            tables: Tables::default(),
            answers: Answers::default(),
            routes,
            handoff,
            events: BoundedQueue::new(EVENTS_MAX),
            peers: Peers::default(),
            holds: Holds::default(),
            heartbeats: Heartbeats::default(),
            cold: BoundedQueue::new(COLD_QUEUE),
            counters: Counters::default(),
            traffic: Traffic::default(),
            overload,
            long_turns: LongTurns::new(cores),
            gate: Gate::default(),
            draining: AtomicBool::new(false),
        }))
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

    /// Answers every held request; from now on none is held.
    pub fn release_holds(self: &Arc<Self>) {
        self.holds.release(self);
    }

    /// No request comes out of any queue any more; those that wait are answered 1.
    pub(crate) fn close_queues(&self) {
        self.handoff.close();
        backpressure::give_up(self);
        drop(self.cold.close());
    }

    /// Ends every wait of Python's threads.
    pub fn close(&self) {
        self.close_queues();
        drop(self.events.close());
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
