//! Opening a store, in this order: lock, file sizes, recovery, `abort`, threads.
//!
//! `abort` is on disk before a thread may append: a store killed after its first append must not
//! look closed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};

use parking_lot::Mutex;

use crate::clean::cleaner::Cleaner;
use crate::clean::rules::Rules;
use crate::clean::run::Scope;
use crate::delay::deliver::Delay;
use crate::delay::redeliver::HALF_TOPIC;
use crate::derive::arrivals::{ArrivalListener, Arrivals};
use crate::derive::derived_files::DerivedFiles;
use crate::derive::dispatch::Dispatch;
use crate::derive::dispatch_thread::{self, Dispatcher, FullDiskRetry};
use crate::derive::index::files::IndexFiles;
use crate::derive::queues::ends_saver::EndsSaver;
use crate::derive::queues::table::ConsumeQueues;
use crate::directory::layout;
use crate::directory::lock::StoreLock;
use crate::directory::log_files;
use crate::entry_repair::EntryRepairer;
use crate::listeners::Listener;
use crate::positions::Positions;
use crate::read::reader::Reader;
use crate::recover::{CleanStop, Recovered, Recovery};
use crate::scan::record::DamagedRecords;
use crate::settings::Settings;
use crate::state::checkpoint::Checkpoint;
use crate::state::offsets::Offsets;
use crate::state::transactions::Transactions;
use crate::stats::latency::Latency;
use crate::stats::rates::Rates;
use crate::store::Store;
use crate::threads::bell::Bell;
use crate::threads::periodic::Every;
use crate::types::{Arrival, StoreError};
use crate::upkeep::Upkeep;
use crate::write::ack::Acks;
use crate::write::append::{Appender, Counters, RoleCell, Tail};
use crate::write::encode::Encoder;
use crate::write::flush::Flusher;
use crate::write::put::Puts;
use crate::write::space::Space;
use crate::write::watermarks::Watermarks;
use mq_base::clock::Clock;
use mq_format::delay_levels::DelayLevels;
use mq_format::message::SCHEDULE_TOPIC;
use mq_log::{Segments, Writer};
use mq_statefile::StateFiles;

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
            derived: dispatch,
            repaired,
            last_store_timestamp_ms,
            ..
        } = recovered;
        let watermarks = Watermarks::new(Arc::clone(&self.log), log_end);
        let acks = Arc::new(Acks::new(self.clock(), watermarks));
        let space = self.space();
        let damaged: Arc<DamagedRecords> = Arc::default();
        let repairer = self.repairer(&queues);
        let positions = Arc::new(self.positions(&queues, &acks, (&damaged, &repairer))?);
        self.mark_open()?;
        let flusher = self.flusher(&acks, &space, last_store_timestamp_ms);
        let puts = Arc::new(self.puts(flusher, &queues));
        let reader = self.reader(&queues, index.as_ref(), repairer);
        let reader = Arc::new(reader.counting(damaged));
        let derived = Arc::new(DerivedFiles {
            queues: Arc::clone(&queues),
            index,
            progress: dispatch.progress(),
            checkpoint: Arc::clone(&self.checkpoint),
            acks: Arc::clone(&acks),
            space: Arc::clone(&space),
            unflushed_rounds: AtomicU32::new(0),
        });
        let rates = Arc::<Rates>::default();
        let upkeep = self.upkeep(&puts, (&derived, &positions), log_end, &rates);
        let cleaner = self.cleaner(&reader, &derived, &positions);
        let full_disk = FullDiskRetry::new(&space, &puts.flusher.appended);
        let on_arrival = Arc::new(Listener::new("arrival-listener"));
        let arrived = arrived(&positions.delay, &on_arrival);
        let dispatcher = self.dispatcher(dispatch, log_end, (full_disk, arrived), acks)?;
        let halves = queues.get(HALF_TOPIC, 0);
        let store = Store {
            root: self.root.into(),
            settings: self.settings,
            clock: self.clock,
            log: self.log,
            puts,
            reader,
            dispatcher,
            derived,
            positions,
            upkeep: Arc::new(upkeep),
            cleaner: Arc::new(cleaner),
            put_latency: Latency::default(),
            get_latency: Latency::default(),
            rates,
            transactions: Transactions::from(halves.map_or(0, |queue| queue.max_offset())),
            repaired,
            on_arrival,
            services: Arc::default(),
            running: Mutex::default(),
        };
        store.start(lock)?;
        Ok(store)
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

    fn positions(
        &self,
        queues: &Arc<ConsumeQueues>,
        acks: &Arc<Acks>,
        (damaged, repairer): (&Arc<DamagedRecords>, &Arc<EntryRepairer>),
    ) -> Result<Positions, StoreError> {
        let state = Arc::new(StateFiles::new(self.root));
        let lmq_enabled = self.settings.multi_dispatch.lmq_enabled;
        let offsets = Arc::new(Offsets::load(&state, lmq_enabled)?);
        let levels = self.levels.clone();
        let delay = Delay::load(levels, Arc::clone(queues), self.clock(), &state)?;
        let delay = delay.counting(Arc::clone(damaged));
        Ok(Positions {
            state,
            offsets,
            delay: Arc::new(delay.repairing_with(Arc::clone(repairer))),
            checkpoint: Arc::clone(&self.checkpoint),
            acks: Arc::clone(acks),
        })
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
            sending: Bell::default(),
            last_store_timestamp_ms: Arc::new(AtomicI64::new(newest_ms)),
            on_flushed: Box::new(move |timestamp_ms| checkpoint.set_log_timestamp(timestamp_ms)),
        })
    }

    fn puts(&self, flusher: Arc<Flusher>, queues: &ConsumeQueues) -> Puts {
        let settings = &self.settings;
        let mut writer = Writer::new(
            Arc::clone(&self.log),
            settings.allocate_step_bytes,
            self.clock(),
        );
        if settings.sync_flush {
            writer = writer.writing_later();
        }
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
            role: RoleCell::new(settings.role),
            tail: Mutex::new(Tail {
                writer,
                queue_offsets: queues.next_offsets(),
                is_closed: false,
            }),
        };
        Puts {
            appender,
            flusher,
            clock: self.clock(),
            sync_flush_timeout_ms: settings
                .sync_flush
                .then_some(settings.sync_flush_timeout_ms),
            failures: AtomicU64::new(0),
        }
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

    fn upkeep(
        &self,
        puts: &Arc<Puts>,
        (derived, positions): (&Arc<DerivedFiles>, &Arc<Positions>),
        log_end: u64,
        rates: &Arc<Rates>,
    ) -> Upkeep {
        let followed = (Arc::clone(&derived.queues), Arc::clone(&derived.progress));
        let (acks, now_ms) = (Arc::clone(&derived.acks), self.clock.monotonic_ms());
        Upkeep {
            clock: self.clock(),
            puts: Arc::clone(puts),
            derived: Arc::clone(derived),
            positions: Arc::clone(positions),
            ends: EndsSaver::new(followed, acks, log_end, now_ms),
            rates: Arc::clone(rates),
            save_every: Every::new(self.settings.flush_offsets_interval_ms),
            save_delay_every: Every::new(self.settings.flush_delay_offsets_interval_ms),
        }
    }

    fn cleaner(
        &self,
        reader: &Arc<Reader>,
        derived: &DerivedFiles,
        positions: &Positions,
    ) -> Cleaner {
        let scope = Scope {
            reader: Arc::clone(reader),
            clock: self.clock(),
            space: Arc::clone(&derived.space),
            acks: Arc::clone(&derived.acks),
            delay: Arc::clone(&positions.delay),
            progress: Arc::clone(&derived.progress),
            log_directory: self.root.join("commitlog"),
        };
        Cleaner::new(self.rules.clone(), scope)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }
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
