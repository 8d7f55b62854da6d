//! Opening a store, in this order: lock, file sizes, recovery, threads, `abort`.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use parking_lot::Mutex;

use super::ack::Acks;
use super::append::{Appender, QueueOffsets, Tail};
use super::checkpoint::Checkpoint;
use super::delay::{Delay, DelayThread};
use super::dispatch::Dispatcher;
use super::encode::Encoder;
use super::files::{create_directory, io_error, sync_directory};
use super::flush::{FlushThreads, Flusher, Interval};
use super::lock::StoreLock;
use super::offsets::Offsets;
use super::periodic::Periodic;
use super::put::{Counters, Puts, Redelivery};
use super::read::Reader;
use super::recover::{Recovered, Recovery};
use super::signal::{Signal, Woken};
use super::space::Space;
use super::state::State;
use super::store::{Running, Store};
use super::types::{Settings, StoreError};
use super::upkeep::Upkeep;
use crate::clock::Clock;
use crate::format::delay_levels::DelayLevels;
use crate::format::message::SCHEDULE_TOPIC;
use crate::log::{Allocator, Directory, Files, Segments, WriteMode, Writer};

/// `mappedFileSizeCommitLog` of a new store, bytes.
const DEFAULT_FILE_BYTES: u64 = 1 << 30;
/// Shortest and longest commit-log file: the filler states the rest of a file as an int.
const FILE_BYTES: std::ops::RangeInclusive<u64> = 4096..=i32::MAX as u64;
/// `flushIntervalConsumeQueue`.
const UPKEEP_EVERY: Duration = Duration::from_secs(1);

/// Present while a store is open, and after it was not closed.
pub(super) const ABORT: &str = "abort";

pub(super) fn open(
    root: &Path,
    settings: Settings,
    clock: Arc<dyn Clock>,
    create: bool,
) -> Result<Store, StoreError> {
    let levels = parse_levels(&settings)?;
    prepare_root(root, create)?;
    let lock = StoreLock::acquire(root)?;
    let was_clean = !root.join(ABORT).exists();
    let log = Arc::new(open_log(root, &settings)?);
    let checkpoint = Arc::new(Checkpoint::open(root)?);
    let recovered = Recovery {
        root,
        log: &*log,
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
        lock,
        log,
        checkpoint,
    };
    let store = parts.start(recovered)?;
    mark_open(root)?;
    Ok(store)
}

fn parse_levels(settings: &Settings) -> Result<DelayLevels, StoreError> {
    DelayLevels::parse(&settings.delay_levels).ok_or_else(|| StoreError::Setting {
        key: "messageDelayLevel",
        value: settings.delay_levels.clone(),
        what: "delays with unit s, m, h or d, separated by spaces",
    })
}

/// Makes the root directory, or without `create` demands that it is a store.
fn prepare_root(root: &Path, create: bool) -> Result<(), StoreError> {
    if create {
        return create_directory(root);
    }
    let metadata = root.metadata().map_err(io_error(root))?;
    if metadata.is_dir() && root.join("commitlog").is_dir() {
        return Ok(());
    }
    Err(StoreError::UnknownLayout {
        root: root.display().to_string(),
        what: "there is no commitlog directory; create=True makes a new store here".into(),
    })
}

/// Opens the commit log's files with the size they have, else with the size that is set.
fn open_log(root: &Path, settings: &Settings) -> Result<Segments<Directory>, StoreError> {
    let path = root.join("commitlog");
    let mode = if settings.sync_flush {
        WriteMode::Write
    } else {
        WriteMode::Map
    };
    let files = Directory::open(&path, &root.join("mqstack"), mode).map_err(io_error(&path))?;
    let found = files
        .list()
        .map_err(io_error(&path))?
        .first()
        .map(|file| file.length);
    let unknown = |what| StoreError::UnknownLayout {
        root: root.display().to_string(),
        what,
    };
    let file_bytes = match (settings.commit_log_file_bytes, found) {
        (Some(set), Some(found)) if set != found => {
            let what = format!(
                "its commit-log files have {found} bytes, mappedFileSizeCommitLog is {set}; \
                 leave the key out to go on with {found}"
            );
            return Err(unknown(what));
        }
        (set, found) => found.or(set).unwrap_or(DEFAULT_FILE_BYTES),
    };
    if !FILE_BYTES.contains(&file_bytes) {
        return Err(StoreError::Setting {
            key: "mappedFileSizeCommitLog",
            value: file_bytes.to_string(),
            what: "4096 to 2147483647 bytes",
        });
    }
    Segments::open(files, file_bytes).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => unknown(error.to_string()),
        _ => io_error(&path)(error),
    })
}

/// Creates `abort`, durably: from now on the store may change.
fn mark_open(root: &Path) -> Result<(), StoreError> {
    let path = root.join(ABORT);
    File::create(&path).map_err(io_error(&path))?;
    sync_directory(root)
}

/// What is there before the threads are.
struct Parts<'a> {
    root: &'a Path,
    settings: Settings,
    clock: Arc<dyn Clock>,
    levels: DelayLevels,
    lock: StoreLock,
    log: Arc<Segments<Directory>>,
    checkpoint: Arc<Checkpoint>,
}

impl Parts<'_> {
    fn start(self, recovered: Recovered) -> Result<Store, StoreError> {
        let Recovered {
            log_end,
            queues,
            index,
            derived,
            last_store_timestamp_ms,
            healed,
        } = recovered;
        let settings = &self.settings;
        let acks = Arc::new(Acks::new(Arc::clone(&self.clock), log_end));
        let newest_ms = Arc::new(AtomicI64::new(last_store_timestamp_ms));
        let space = Arc::new(Space::new(self.root, settings.min_free_bytes));
        space.refresh();
        let state = Arc::new(State::new(self.root));
        let offsets = Arc::new(Offsets::load(&state)?);
        let log = Arc::clone(&self.log);
        let delay = Delay::load(
            self.levels.clone(),
            Arc::clone(&queues),
            self.clock(),
            &state,
        )?;
        let delay = Arc::new(delay);

        let flusher = self.flusher(Arc::clone(&acks), Arc::clone(&newest_ms));
        let mut queue_offsets = QueueOffsets::default();
        for queue in queues.all() {
            *queue_offsets.entry(queue.topic(), queue.queue_id()) = queue.max_offset();
        }
        let writer = Writer::new(Arc::clone(&log), settings.allocate_step_bytes);
        let allocator = Allocator::start(&writer).map_err(thread_error)?;
        let appender = Appender {
            encoder: Encoder {
                max_message_bytes: settings.max_message_bytes,
                levels: self.levels.clone(),
            },
            clock: self.clock(),
            acks: Arc::clone(&acks),
            space: Arc::clone(&space),
            last_store_timestamp_ms: newest_ms,
            locked_at_ms: AtomicI64::new(0),
            tail: Mutex::new(Tail {
                writer,
                queue_offsets,
                is_closed: false,
            }),
        };
        let appended = Arc::new(Signal::default());
        let puts = Arc::new(Puts {
            appender,
            flusher: Arc::clone(&flusher),
            clock: self.clock(),
            appended: Arc::clone(&appended),
            sync_flush_timeout_ms: settings
                .sync_flush
                .then_some(settings.sync_flush_timeout_ms),
            counters: Counters::default(),
        });
        let reader = Arc::new(Reader::new(
            Arc::clone(&log),
            Arc::clone(&queues),
            index.clone(),
            settings,
        ));

        let progress = derived.progress();
        let dispatcher = Dispatcher::start(
            Arc::clone(&log),
            derived,
            log_end,
            follow(Arc::clone(&log), appended),
            fail_dispatch(Arc::clone(&acks)),
        )?;
        let upkeep = Arc::new(Upkeep {
            clock: self.clock(),
            acks,
            space,
            state,
            offsets,
            delay: Arc::clone(&delay),
            checkpoint: Arc::clone(&self.checkpoint),
            queues,
            index,
            progress,
            save_every_ms: settings.flush_offsets_interval_ms.cast_signed(),
            save_at_ms: AtomicI64::new(0),
        });
        let redelivery = Redelivery {
            reader: Arc::clone(&reader),
            puts: Arc::clone(&puts),
        };
        let round = Arc::clone(&upkeep);
        let running = Running {
            delay: DelayThread::start(delay, redelivery).map_err(thread_error)?,
            flush: self.flush_threads(&flusher).map_err(thread_error)?,
            upkeep: Periodic::start("mq-upkeep", UPKEEP_EVERY, move || round.round())
                .map_err(thread_error)?,
            allocator,
            lock: self.lock,
        };
        let store = Store {
            root: self.root.into(),
            log,
            puts,
            reader,
            dispatcher,
            upkeep,
            healed,
            listener: Arc::default(),
            running: Mutex::new(Some(running)),
        };
        store.listen();
        Ok(store)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    fn flusher(&self, acks: Arc<Acks>, newest_ms: Arc<AtomicI64>) -> Arc<Flusher<Directory>> {
        let checkpoint = Arc::clone(&self.checkpoint);
        Arc::new(Flusher {
            log: Arc::clone(&self.log),
            acks,
            last_store_timestamp_ms: newest_ms,
            on_flushed: Box::new(move |timestamp_ms| checkpoint.set_log_timestamp(timestamp_ms)),
        })
    }

    fn flush_threads(&self, flusher: &Arc<Flusher<Directory>>) -> io::Result<FlushThreads> {
        let settings = &self.settings;
        if settings.sync_flush {
            return FlushThreads::group_commit(flusher);
        }
        let interval = Interval {
            every: Duration::from_millis(settings.flush_interval_ms),
            least_pages: settings.flush_least_pages.into(),
            thorough_ms: settings.flush_thorough_interval_ms.cast_signed(),
        };
        FlushThreads::on_interval(flusher, interval, self.clock())
    }
}

/// Waits for the log to grow; after a stop, answers until the end is reached.
fn follow<F: Files>(
    log: Arc<Segments<F>>,
    appended: Arc<Signal>,
) -> impl FnMut(u64) -> Option<u64> + Send + 'static {
    move |offset| {
        loop {
            let end = log.max_offset();
            if end > offset {
                return Some(end);
            }
            if appended.wait(None, || log.max_offset() > offset) == Woken::Stop {
                let end = log.max_offset();
                return (end > offset).then_some(end);
            }
        }
    }
}

/// Queues that do not follow the log would hide acknowledged messages.
fn fail_dispatch(acks: Arc<Acks>) -> impl FnOnce(StoreError) + Send + 'static {
    move |error| acks.fail(format!("dispatch: {error}"))
}

fn thread_error(source: io::Error) -> StoreError {
    io_error("a thread of the store".as_ref())(source)
}

impl Store {
    /// Has the dispatcher wake delay delivery, and whoever registered.
    fn listen(&self) {
        let delay = Arc::clone(&self.upkeep.delay);
        let listener = Arc::clone(&self.listener);
        self.dispatcher.on_arrival(Box::new(move |arrival| {
            if arrival.topic == SCHEDULE_TOPIC {
                delay.notify();
            }
            if let Some(listener) = listener.get() {
                listener(arrival);
            }
        }));
    }
}
