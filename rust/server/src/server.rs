//! Starts and stops one server: the only type that the Python bindings need.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;

use crate::conn::admission::Admission;
use crate::conn::{listener, memory};
use crate::core::Core;
use crate::dispatch::{backpressure, cold_reads, queue_timeout, routing};
use crate::limits::{CLOCK_CHECK_MS, COLD_THREADS, HOLD_SWEEP_MS};
use crate::requests::acknowledgement;
use crate::settings::Kind;
use crate::supervise::supervise;
use mq_base::clock::{Step, StepWatch, shown};
use mq_format::message::RecordView;
use mq_net::threads::can_start;
use mq_store::{AlreadyRegistered, Arrivals, Delivered, Settled, Store};

/// Interval at which a stop checks whether all requests are answered.
const DRAIN_STEP: Duration = Duration::from_millis(5);
/// Time that a stop gives connections to write their replies after the last request.
const FLUSH_TIME: Duration = Duration::from_millis(500);

/// A listening server.
pub struct Server {
    core: Arc<Core>,
    admission: Arc<Admission>,
    runtime: Runtime,
    accepting: Mutex<JoinSet<()>>,
    cold: Vec<JoinHandle<()>>,
    /// The main port.
    pub port: u16,
    /// The fast (VIP) port, if the server has one.
    pub fast_port: Option<u16>,
}

impl Server {
    /// Binds, listens and serves.
    ///
    /// # Errors
    /// The operating system's, from resolving, binding or listening.
    pub fn start(core: Arc<Core>, admission: Arc<Admission>) -> io::Result<Self> {
        let settings = &core.settings;
        let (main, port) = listener::bind(&settings.host, settings.port)?;
        let fast = settings
            .fast_port
            .map(|port| listener::bind(&settings.host, port))
            .transpose()?;
        let fast_port = fast.as_ref().map(|(_, port)| *port);
        can_start(settings.workers())?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(settings.workers())
            .thread_name("mq-worker")
            .enable_io()
            .enable_time()
            .build()?;
        // Before the first request, because its reply may wait for a call of the store.
        listen_to_store(&core)?;
        let mut accepting = JoinSet::new();
        let context = runtime.enter();
        let ports = [
            Some((main, false)),
            fast.map(|(listener, _)| (listener, true)),
        ];
        for (listener, is_fast) in ports.into_iter().flatten() {
            let listener = Arc::new(tokio::net::TcpListener::from_std(listener)?);
            let (core, admission) = (Arc::clone(&core), Arc::clone(&admission));
            let stats = Arc::clone(&core.stats);
            let accept = move || {
                let (core, admission) = (Arc::clone(&core), Arc::clone(&admission));
                listener::accept(core, admission, Arc::clone(&listener), is_fast)
            };
            accepting.spawn(supervise(stats, "accept", accept));
        }
        let timed = Arc::clone(&core);
        let holds = move || keep_time(Arc::clone(&timed));
        runtime.spawn(supervise(Arc::clone(&core.stats), "holds", holds));
        let timed = Arc::clone(&core);
        let queues = move || queue_timeout::keep_queues(Arc::clone(&timed));
        runtime.spawn(supervise(Arc::clone(&core.stats), "queues", queues));
        runtime.spawn(memory::keep_low());
        drop(context);
        let cold = start_cold_reads(&core)?;
        Ok(Self {
            core,
            admission,
            runtime,
            accepting: Mutex::new(accepting),
            cold,
            port,
            fast_port,
        })
    }

    /// Returns the parts of the server.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Closes the listening sockets; open connections stay open.
    pub fn stop_accepting(&self) {
        self.accepting.lock().abort_all();
    }

    /// Stops the server: reads nothing more, waits until Python has answered its requests (at
    /// `timeout` they get code 1), writes the replies, and closes the connections.
    pub fn stop(self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        self.stop_accepting();
        self.admission.drain();
        self.core.release_holds();
        while self.core.handoff.open() > 0 && Instant::now() < deadline {
            std::thread::sleep(DRAIN_STEP);
        }
        self.core.close_queues();
        for thread in self.cold {
            // A panic does not end this thread; the service round catches it.
            let _ = thread.join();
        }
        let flushed = Instant::now() + FLUSH_TIME;
        let has_outbound = || {
            let peers = self.core.clients.peers.all();
            peers.iter().any(|peer| peer.outbound_bytes() > 0)
        };
        while has_outbound() && Instant::now() < flushed {
            std::thread::sleep(DRAIN_STEP);
        }
        self.core
            .clients
            .peers
            .all()
            .iter()
            .for_each(|peer| peer.close());
        self.runtime.shutdown_timeout(Duration::from_secs(1));
        self.core.close();
    }

    /// Ends everything without waiting: for a server that was not stopped.
    pub fn abandon(self) {
        self.admission.drain();
        // Held requests keep the core alive, and the core keeps them alive.
        self.core.release_holds();
        self.core.close();
        self.runtime.shutdown_background();
    }
}

/// Ends long polls at their deadlines as long as the server lives, and watches the machine's clock.
async fn keep_time(core: Arc<Core>) {
    core.waiting.run_on(Handle::current());
    let polls = &core.waiting.long_polls;
    let mut watch = StepWatch::new(&*core.clock);
    let mut sweep_at_ms = 0;
    loop {
        let now_ms = core.clock.monotonic_ms();
        let at_most = Duration::from_millis(CLOCK_CHECK_MS);
        polls.deadline.sleep(now_ms, at_most).await;
        if let Some(step) = watch.look(&*core.clock) {
            warn_of(&step);
        }
        let now_ms = core.clock.monotonic_ms();
        routing::wake(&core, polls.expired(now_ms));
        if now_ms >= sweep_at_ms {
            sweep_at_ms = now_ms + HOLD_SWEEP_MS;
            routing::wake(&core, polls.sweep());
        }
    }
}

fn warn_of(step: &Step) {
    let Step { from_ms, to_ms } = *step;
    tracing::warn!(
        "the clock of this machine stepped by {} s, from {} to {}; times that are stored, delays \
         and retention follow it",
        (to_ms - from_ms) as f64 / 1000.0,
        shown(from_ms),
        shown(to_ms)
    );
}

impl Core {
    /// Answers every long poll; from now on no request becomes one.
    pub fn release_holds(self: &Arc<Self>) {
        routing::wake(self, self.waiting.long_polls.release());
    }

    /// Closes all queues; requests that still wait get code 1.
    fn close_queues(self: &Arc<Self>) {
        for request in self.handoff.close() {
            routing::end(self, request);
        }
        backpressure::give_up(self);
        drop(self.waiting.cold.close());
    }

    /// Ends every wait of Python's threads.
    pub fn close(self: &Arc<Self>) {
        self.close_queues();
        drop(self.clients.events.close());
        self.clients.replies.close();
    }
}

/// The store is in use.
fn taken(error: AlreadyRegistered) -> io::Error {
    io::Error::other(error)
}

/// The store of a broker.
fn store(core: &Core) -> Option<&Arc<Store>> {
    core.state
        .store
        .as_ref()
        .filter(|_| core.settings.kind == Kind::Broker)
}

/// Has the store tell of puts that are settled and of messages that arrived, and ask for bitmaps.
fn listen_to_store(core: &Arc<Core>) -> io::Result<()> {
    let Some(store) = store(core) else {
        return Ok(());
    };
    let pending_acks = Arc::clone(&core.waiting.pending_acks);
    let settled = move |settled: &[Settled]| acknowledgement::settled(&pending_acks, settled);
    store.on_settled(Box::new(settled)).map_err(taken)?;
    // Weak, because the store outlives its server, and the core holds the store.
    let listening = Arc::downgrade(core);
    let arrived = move |arrivals: &Arrivals<'_>| {
        if let Some(core) = listening.upgrade() {
            // The store's dispatch thread only moves the long polls; they are answered elsewhere.
            routing::wake(&core, core.waiting.long_polls.arrived(arrivals));
        }
    };
    store.on_arrival(Box::new(arrived)).map_err(taken)?;
    let counting = Arc::downgrade(core);
    let delivered = move |delivery: &Delivered<'_>| {
        if let Some(core) = counting.upgrade() {
            let Delivered {
                queue_id,
                topic,
                size_bytes,
            } = *delivery;
            core.stats.traffic.delivery(queue_id, topic, size_bytes);
        }
    };
    store.on_delivery(Box::new(delivered)).map_err(taken)?;
    let waiting = Arc::downgrade(core);
    let is_awaited = move || {
        let core = waiting.upgrade();
        core.is_none_or(|core| !core.waiting.long_polls.is_empty())
    };
    store.set_awaited(Box::new(is_awaited)).map_err(taken)?;
    let filtering = Arc::downgrade(core);
    let bitmap = move |record: &RecordView<'_>| {
        let filters = &filtering.upgrade()?.state.tables.filters;
        filters.bitmap(record.topic, record.properties)
    };
    store.set_bitmap_source(Box::new(bitmap)).map_err(taken)
}

/// Starts the threads that may wait for the store's disk.
fn start_cold_reads(core: &Arc<Core>) -> io::Result<Vec<JoinHandle<()>>> {
    let count = if store(core).is_some() {
        COLD_THREADS
    } else {
        0
    };
    (0..count)
        .map(|index| {
            let core = Arc::clone(core);
            let thread = std::thread::Builder::new().name(format!("mq-cold-{index}"));
            thread.spawn(move || cold_reads::read_cold(&core))
        })
        .collect()
}
