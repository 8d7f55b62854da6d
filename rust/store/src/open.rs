//! Opening a store, in this order: lock, file sizes, recovery, `abort`, threads.
//!
//! `abort` is on disk before a thread may append: a store killed after its first append must not
//! look closed.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clean::cleaner::Cleaner;
use crate::clean::rules::Rules;
use crate::delay::deliver::{Delay, DelayThread};
use crate::delay::redeliver::{HALF_TOPIC, Redelivery};
use crate::derive::arrivals::{ArrivalListener, Arrivals};
use crate::derive::dispatch::Dispatch;
use crate::derive::dispatch_thread::{self, Dispatcher, FullDiskRetry};
use crate::derive::index::files::IndexFiles;
use crate::derive::queues::table::ConsumeQueues;
use crate::directory::layout;
use crate::directory::lock::StoreLock;
use crate::directory::log_files;
use crate::entry_repair::EntryRepairer;
use crate::files::io_error;
use crate::latency::Latency;
use crate::listeners::Listener;
use crate::rates::Rates;
use crate::read::reader::Reader;
use crate::records::record::DamagedRecords;
use crate::recover::{CleanStop, Recovered, Recovery};
use crate::settings::Settings;
use crate::state::checkpoint::Checkpoint;
use crate::state::offsets::Offsets;
use crate::state::transactions::Transactions;
use crate::store::{Running, Store};
use crate::threads::periodic::{Every, Pause, Periodic};
use crate::types::{Arrival, StoreError};
use crate::upkeep::{EndsSaver, Upkeep};
use crate::write::ack::Acks;
use crate::write::append::{Appender, Counters, Tail};
use crate::write::encode::Encoder;
use crate::write::flush::{FlushThreads, Flusher, Interval};
use crate::write::put::Puts;
use crate::write::queue_offsets::QueueOffsets;
use crate::write::space::Space;
use crate::write::watermarks::Watermarks;
use mq_base::clock::Clock;
use mq_base::services::Services;
use mq_format::delay_levels::DelayLevels;
use mq_format::message::SCHEDULE_TOPIC;
use mq_log::{Allocator, Segments, Writer};
use mq_statefile::StateFiles;

/// How often queues are written, so that tools that read the queue files see the messages.
const WRITE_EVERY: Duration = Duration::from_millis(200);
/// One of this many queue writes is also a flush: `flushIntervalConsumeQueue`.
const WRITES_PER_FLUSH: u32 = 5;

impl Store {
    /// Opens (recovering if needed) or creates the store at `root`, and starts its threads.
    pub fn open(
        root: &Path,
        settings: Settings,
        clock: Arc<dyn Clock>,
        create: bool,
    ) -> Result<Arc<Self>, StoreError> {
        open(root, settings, clock, create).map(Arc::new)
    }
}

fn open(
    root: &Path,
    settings: Settings,
    clock: Arc<dyn Clock>,
    create: bool,
) -> Result<Store, StoreError> {
    let levels = settings.levels()?;
    let rules = Rules::new(&settings.cleaning)?;
    layout::prepare_root(root, settings.commit_log_path.as_deref(), create)?;
    let lock = StoreLock::acquire(root)?;
    let was_clean = !root.join(layout::ABORT).exists();
    let log = Arc::new(log_files::open_log(root, &settings)?);
    let checkpoint = Arc::new(Checkpoint::open(root)?);
    let recovered = Recovery {
        root,
        log: &log,
        checkpoint: &checkpoint,
        settings: &settings,
        clock: &clock,
        was_clean,
    }
    .run()?;
    let parts = Parts {
        root,
        settings,
        clock,
        levels,
        rules,
        log,
        checkpoint,
    };
    parts.start(recovered, lock)
}

/// The parts of a store that exist before its threads.
struct Parts<'a> {
    root: &'a Path,
    settings: Settings,
    clock: Arc<dyn Clock>,
    levels: DelayLevels,
    rules: Rules,
    log: Arc<Segments>,
    checkpoint: Arc<Checkpoint>,
}

impl Parts<'_> {
    fn start(self, recovered: Recovered, lock: StoreLock) -> Result<Store, StoreError> {
        let Recovered {
            log_end,
            queues,
            index,
            derived,
            ..
        } = recovered;
        let watermarks = Watermarks::new(Arc::clone(&self.log), log_end);
        let acks = Arc::new(Acks::new(self.clock(), watermarks));
        let settings = &self.settings;
        let space = self.space();
        let state = Arc::new(StateFiles::new(self.root));
        let lmq_enabled = self.settings.multi_dispatch.lmq_enabled;
        let offsets = Arc::new(Offsets::load(&state, lmq_enabled)?);
        let damaged: Arc<DamagedRecords> = Arc::default();
        let repairer = self.repairer(&queues);
        let delay = self.delay(&queues, &state, &damaged)?;
        let delay = Arc::new(delay.repairing_with(Arc::clone(&repairer)));
        self.mark_open()?;
        let flusher = self.flusher(&acks, &space, recovered.last_store_timestamp_ms);
        let services = Arc::<Services>::default();
        let (puts, allocator) = self.puts(flusher, &queues, &services)?;
        let reader = self
            .reader(&queues, index.as_ref(), repairer)
            .counting(damaged);
        let upkeep = Upkeep {
            clock: self.clock(),
            acks: Arc::clone(&acks),
            space,
            state,
            offsets,
            delay,
            checkpoint: Arc::clone(&self.checkpoint),
            queues,
            index,
            progress: derived.progress(),
            save_every: Every::new(settings.flush_offsets_interval_ms),
            save_delay_every: Every::new(settings.flush_delay_offsets_interval_ms),
            rates: Rates::default(),
            unflushed_rounds: AtomicU32::new(0),
            ends: EndsSaver::from(log_end, self.clock.monotonic_ms()),
        };
        let full_disk = FullDiskRetry::new(&upkeep.space, &puts.flusher.appended);
        let on_arrival = Arc::new(Listener::new("arrival-listener"));
        let arrived = arrived(&upkeep.delay, &on_arrival);
        let dispatcher = self.dispatcher(derived, log_end, (full_disk, arrived), acks)?;
        let (puts, reader, upkeep) = (Arc::new(puts), Arc::new(reader), Arc::new(upkeep));
        let (cleaner, cleaning) = self.cleaning(&reader, &upkeep, &services)?;
        let running = self.running(&puts, &upkeep, &services, (cleaning, allocator, lock))?;
        let halves = upkeep.queues.get(HALF_TOPIC, 0);
        let transactions = Transactions::from(halves.map_or(0, |queue| queue.max_offset()));
        Ok(Store {
            root: self.root.into(),
            log: self.log,
            puts,
            reader,
            dispatcher,
            upkeep,
            cleaner,
            put_latency: Latency::default(),
            get_latency: Latency::default(),
            transactions,
            repaired: recovered.repaired,
            on_arrival,
            services,
            running: Mutex::new(Some(running)),
        })
    }

    fn space(&self) -> Arc<Space> {
        let settings = &self.settings;
        let space = Space::with_ratios(self.root, settings.min_free_bytes, &settings.cleaning);
        space.refresh();
        Arc::new(space)
    }

    fn repairer(&self, queues: &Arc<ConsumeQueues>) -> Arc<EntryRepairer> {
        let (log, queues) = (Arc::clone(&self.log), Arc::clone(queues));
        let (levels, multi_dispatch) = (self.levels.clone(), self.settings.multi_dispatch);
        Arc::new(EntryRepairer::new(
            log,
            queues,
            levels,
            multi_dispatch.enabled,
        ))
    }

    fn reader(
        &self,
        queues: &Arc<ConsumeQueues>,
        index: Option<&Arc<IndexFiles>>,
        repairer: Arc<EntryRepairer>,
    ) -> Reader {
        let (log, queues) = (Arc::clone(&self.log), Arc::clone(queues));
        Reader::new(log, queues, index.cloned(), &self.settings, repairer)
    }

    fn delay(
        &self,
        queues: &Arc<ConsumeQueues>,
        state: &StateFiles,
        damaged: &Arc<DamagedRecords>,
    ) -> Result<Delay, StoreError> {
        let levels = self.levels.clone();
        let delay = Delay::load(levels, Arc::clone(queues), self.clock(), state)?;
        Ok(delay.counting(Arc::clone(damaged)))
    }

    /// From here on the store looks open. A failure before this leaves a closed store closed.
    fn mark_open(&self) -> Result<(), StoreError> {
        layout::mark_open(self.root)?;
        CleanStop::remove(self.root)
    }

    fn flusher(&self, acks: &Arc<Acks>, space: &Arc<Space>, newest_ms: i64) -> Arc<Flusher> {
        let checkpoint = Arc::clone(&self.checkpoint);
        Arc::new(Flusher {
            log: Arc::clone(&self.log),
            acks: Arc::clone(acks),
            space: Arc::clone(space),
            lacks_room: AtomicBool::new(false),
            appended: Arc::default(),
            last_store_timestamp_ms: Arc::new(AtomicI64::new(newest_ms)),
            on_flushed: Box::new(move |timestamp_ms| checkpoint.set_log_timestamp(timestamp_ms)),
        })
    }

    /// The put path, and the thread that allocates log files ahead of it.
    fn puts(
        &self,
        flusher: Arc<Flusher>,
        queues: &ConsumeQueues,
        services: &Arc<Services>,
    ) -> Result<(Puts, Allocator), StoreError> {
        let settings = &self.settings;
        let mut writer = Writer::new(
            Arc::clone(&self.log),
            settings.allocate_step_bytes,
            self.clock(),
        );
        if settings.sync_flush {
            writer = writer.writing_later();
        }
        let allocator = Allocator::start(&writer, services).map_err(thread_error)?;
        let encoder = Encoder {
            max_message_bytes: settings.max_message_bytes,
            levels: self.levels.clone(),
            multi_dispatch: settings.multi_dispatch,
            light_queues: queues.light(),
        };
        let appender = Appender {
            encoder,
            clock: self.clock(),
            acks: Arc::clone(&flusher.acks),
            space: Arc::clone(&flusher.space),
            last_store_timestamp_ms: Arc::clone(&flusher.last_store_timestamp_ms),
            busy_ms: settings.page_cache_busy_ms,
            locked_at_ms: AtomicI64::new(0),
            counters: Counters::default(),
            stall: writer.stall(),
            tail: tail(writer, queues),
        };
        let puts = Puts {
            appender,
            flusher,
            clock: self.clock(),
            sync_flush_timeout_ms: settings
                .sync_flush
                .then_some(settings.sync_flush_timeout_ms),
            failures: AtomicU64::new(0),
        };
        Ok((puts, allocator))
    }

    fn dispatcher(
        &self,
        derived: Dispatch,
        log_end: u64,
        (full_disk, arrived): (FullDiskRetry, Box<ArrivalListener>),
        acks: Arc<Acks>,
    ) -> Result<Dispatcher, StoreError> {
        let log = Arc::clone(&self.log);
        let readable_beyond =
            dispatch_thread::readable_beyond(Arc::clone(&log), Arc::clone(&full_disk.appended));
        // If dispatch stops, acknowledged messages would be invisible to consumers, so refuse new
        // ones.
        let failed = move |error| acks.fail(format!("dispatch: {error}"));
        Dispatcher::start(
            log,
            derived,
            log_end,
            readable_beyond,
            full_disk,
            arrived,
            failed,
        )
    }

    /// Starts the threads that end at close.
    fn running(
        &self,
        puts: &Arc<Puts>,
        upkeep: &Arc<Upkeep>,
        services: &Arc<Services>,
        (cleaning, allocator, lock): (Periodic, Allocator, StoreLock),
    ) -> Result<Running, StoreError> {
        let redelivery = Redelivery(Arc::clone(puts));
        let delay = DelayThread::start(Arc::clone(&upkeep.delay), redelivery, services);
        let flush = self.flush_threads(&puts.flusher, services);
        let (upkeep, puts) = (Arc::clone(upkeep), Arc::clone(puts));
        upkeep.sample(puts.appender.counters.messages());
        let mut writes = 0_u32;
        let upkeep = Periodic::start("mq-upkeep", WRITE_EVERY, services, move || {
            writes = writes.wrapping_add(1);
            upkeep.guarded(|| {
                if !writes.is_multiple_of(WRITES_PER_FLUSH) {
                    return upkeep.write_queues();
                }
                upkeep.round();
                upkeep.repair_index(&*puts.flusher.log, false);
                upkeep.sample(puts.appender.counters.messages());
            });
        });
        Ok(Running {
            delay: delay.map_err(thread_error)?,
            flush: flush.map_err(thread_error)?,
            upkeep: upkeep.map_err(thread_error)?,
            cleaning,
            allocator,
            lock,
        })
    }

    /// The cleaner and its thread.
    fn cleaning(
        &self,
        reader: &Arc<Reader>,
        upkeep: &Arc<Upkeep>,
        services: &Arc<Services>,
    ) -> Result<(Arc<Cleaner>, Periodic), StoreError> {
        let log_directory = self.root.join("commitlog");
        let (reader, upkeep) = (Arc::clone(reader), Arc::clone(upkeep));
        let cleaner = Cleaner::new(self.rules.clone(), reader, upkeep, log_directory);
        let cleaner = Arc::new(cleaner);
        let every = Duration::from_millis(self.settings.cleaning.interval_ms);
        let run = Arc::clone(&cleaner);
        let round = move |pause: &Pause| run.round(pause);
        let thread = Periodic::start_pausing("mq-clean", every, services, round);
        Ok((cleaner, thread.map_err(thread_error)?))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    fn flush_threads(
        &self,
        flusher: &Arc<Flusher>,
        services: &Arc<Services>,
    ) -> io::Result<FlushThreads> {
        let settings = &self.settings;
        if settings.sync_flush {
            return FlushThreads::group_commit(flusher, services);
        }
        let interval = Interval {
            every: Duration::from_millis(settings.flush_interval_ms),
            least_pages: settings.flush_least_pages.into(),
            thorough_ms: settings.flush_thorough_interval_ms.cast_signed(),
        };
        FlushThreads::on_interval(flusher, interval, self.clock(), services)
    }
}

/// The writer at the end of the log, and the next offset of every queue.
fn tail(writer: Writer, queues: &ConsumeQueues) -> Mutex<Tail> {
    let mut queue_offsets = QueueOffsets::default();
    for queue in queues.all() {
        *queue_offsets.entry(queue.topic(), queue.queue_id()) = queue.max_offset();
    }
    Mutex::new(Tail {
        writer,
        queue_offsets,
        is_closed: false,
    })
}

fn thread_error(source: io::Error) -> StoreError {
    io_error("a thread of the store".as_ref())(source)
}

/// Makes the dispatcher notify delay delivery and then the registered listener.
fn arrived(
    delay: &Arc<Delay>,
    on_arrival: &Arc<Listener<ArrivalListener>>,
) -> Box<ArrivalListener> {
    let (delay, on_arrival) = (Arc::clone(delay), Arc::clone(on_arrival));
    Box::new(move |arrivals: &Arrivals<'_>| {
        if arrivals.may_have(SCHEDULE_TOPIC) {
            let delayed = |arrival: &Arrival<'_>| arrival.topic == SCHEDULE_TOPIC;
            for arrival in arrivals.iter().filter(delayed) {
                delay.notify(arrival.queue_id, arrival.max_offset);
            }
        }
        on_arrival.call(|listener| listener(arrivals));
    })
}
