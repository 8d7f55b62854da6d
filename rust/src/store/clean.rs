//! Deleting what is old: files of the log, then what of the queues and the index points below it.
//!
//! Where RocketMQ's rules are unsafe, ours differ:
//! - A file's age is that of its newest message or of its last change, whichever is younger:
//!   times of files alone are lost when a store is copied.
//! - A file goes only once it is flushed, and dispatched to queues and index.
//! - RocketMQ waits for the readers of a file, and takes it away from them after two minutes. Here
//!   a name goes at once, and the bytes with the last reader; nobody is cut off. A file that hangs
//!   is one whose name could not be removed, or whose reader never ends; both are logged.
//! - A queue never loses its last file, so it never restarts at offset 0 under its consumers.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;

use super::clean_rules::{FILES_PER_RUN, FIRST_RUN_MS, Leave, MANUAL_RUNS, Rules};
use super::consume_queue::ConsumeQueue;
use super::files::offset_name;
use super::periodic::Pause;
use super::read::Reader;
use super::space::Pressure;
use super::types::Cleaned;
use super::upkeep::Upkeep;
use crate::format::message::SCHEDULE_TOPIC;
use crate::log::{Files, Removed, fs};

/// The topic whose messages tell which half messages are done.
const OP_HALF_TOPIC: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// Light queues belong to no topic of the configuration.
const LMQ_PREFIX: &str = "%LMQ%";

/// Deletes files; one run at a time.
pub(crate) struct Cleaner<F: Files> {
    rules: Rules,
    reader: Arc<Reader<F>>,
    upkeep: Arc<Upkeep>,
    /// Where the log's files are.
    log_directory: PathBuf,
    /// Monotonic time of the first run that nobody asked for.
    first_run_ms: i64,
    /// Runs that the operator still has.
    manual_runs: AtomicU32,
    state: Mutex<State<F>>,
}

/// What one run leaves to the next.
struct State<F: Files> {
    /// Queues and index are clean up to here, bytes from the start of the log.
    cleaned_to: u64,
    /// Monotonic time of the next try, after a file could not be deleted.
    retry_at_ms: i64,
    /// Deleted files that somebody still read, and since when.
    held: Vec<Held<F>>,
    /// Everything deleted since the store was opened.
    total: Cleaned,
}

struct Held<F: Files> {
    removed: Removed<F::Disk>,
    /// Monotonic time of its removal; None once its hanging was reported.
    since_ms: Option<i64>,
}

impl<F: Files> Default for State<F> {
    fn default() -> Self {
        Self {
            cleaned_to: 0,
            retry_at_ms: i64::MIN,
            held: Vec::new(),
            total: Cleaned::default(),
        }
    }
}

/// How a run pauses; false ends it.
pub(super) type Sleep<'a> = &'a dyn Fn(Duration) -> bool;

impl<F: Files> Cleaner<F> {
    /// A cleaner of a store whose log is in `log_directory`.
    pub(super) fn new(
        rules: Rules,
        reader: Arc<Reader<F>>,
        upkeep: Arc<Upkeep>,
        log_directory: PathBuf,
    ) -> Self {
        let first_run_ms = upkeep.clock.monotonic_ms() + FIRST_RUN_MS;
        Self {
            rules,
            reader,
            upkeep,
            log_directory,
            first_run_ms,
            manual_runs: AtomicU32::new(0),
            state: Mutex::default(),
        }
    }

    /// One round of the cleaning thread.
    pub(super) fn round(&self, pause: &Pause) {
        let is_manual = self.manual_runs.load(Ordering::Relaxed) > 0;
        if is_manual || self.upkeep.clock.monotonic_ms() >= self.first_run_ms {
            self.run(&|time| pause.sleep(time));
        }
    }

    /// Gives the operator's runs, as RocketMQ's DELETE_EXPIRED_COMMITLOG does.
    pub(super) fn ask(&self) {
        self.manual_runs.store(MANUAL_RUNS, Ordering::Relaxed);
    }

    /// A run that the operator waits for.
    pub(super) fn run_now(&self, sleep: Sleep<'_>) -> Cleaned {
        self.manual_runs.fetch_max(1, Ordering::Relaxed);
        self.run(sleep)
    }

    /// Everything deleted since the store was opened.
    pub(super) fn total(&self) -> Cleaned {
        self.state.lock().total
    }

    /// Deletes what has to go now.
    pub(super) fn run(&self, sleep: Sleep<'_>) -> Cleaned {
        let mut state = self.state.lock();
        self.let_go(&mut state);
        if self.upkeep.acks.poison().is_some() {
            // The disk is not well; recovery decides what of the store is sound.
            return Cleaned::default();
        }
        let is_manual = self.take_manual_run();
        let wall_ms = self.upkeep.clock.wall_ms();
        let leave = self
            .rules
            .leave(wall_ms, self.upkeep.space.pressure(), is_manual);
        let mut cleaned = self.clean_log(&mut state, leave, sleep);
        if cleaned.log_files == 0 && self.upkeep.space.pressure() > Pressure::None {
            tracing::warn!("the disk fills up, and no file of the commit log may be deleted");
        }
        if self.reader.log.min_offset() > state.cleaned_to {
            self.clean_derived(&mut state, &mut cleaned, sleep);
        }
        self.let_go(&mut state);
        self.finish(&mut state, cleaned)
    }

    /// Drops what the queues and the index say about messages that are gone.
    pub(super) fn clean_queues(&self, sleep: Sleep<'_>) -> Cleaned {
        let mut state = self.state.lock();
        let mut cleaned = Cleaned::default();
        self.clean_derived(&mut state, &mut cleaned, sleep);
        self.finish(&mut state, cleaned)
    }

    /// Empties the queues of topics that are not in `topics`.
    pub(super) fn clean_unused(&self, topics: &HashSet<String>, sleep: Sleep<'_>) -> Cleaned {
        let mut state = self.state.lock();
        let mut cleaned = Cleaned::default();
        for queue in self.reader.queues.all() {
            let topic = queue.topic();
            let is_kept = topics.contains(topic)
                || [SCHEDULE_TOPIC, OP_HALF_TOPIC].contains(&topic)
                || topic.starts_with(LMQ_PREFIX);
            if is_kept {
                continue;
            }
            queue.set_min_from(i64::MAX);
            if !self.clean_queue(&queue, i64::MAX, &mut cleaned, sleep) {
                break;
            }
        }
        self.finish(&mut state, cleaned)
    }

    fn finish(&self, state: &mut State<F>, cleaned: Cleaned) -> Cleaned {
        state.total += cleaned;
        if cleaned != Cleaned::default() {
            let start = self.reader.log.min_offset();
            tracing::info!(
                start,
                ?cleaned,
                "deleted what is old; the commit log has a new start"
            );
        }
        cleaned
    }

    fn take_manual_run(&self) -> bool {
        let take = |runs: u32| runs.checked_sub(1);
        let order = Ordering::Relaxed;
        self.manual_runs.fetch_update(order, order, take).is_ok()
    }

    /// Deletes leading files of the log, each only if it may go and nothing needs it.
    fn clean_log(&self, state: &mut State<F>, leave: Leave, sleep: Sleep<'_>) -> Cleaned {
        let mut cleaned = Cleaned::default();
        let now_ms = self.upkeep.clock.monotonic_ms();
        if now_ms < state.retry_at_ms {
            return cleaned;
        }
        while cleaned.log_files < FILES_PER_RUN && self.may_go(leave) {
            if cleaned.log_files > 0 && !sleep(self.rules.log_pause) {
                break;
            }
            match self.reader.log.remove_first() {
                Ok(Some(removed)) => {
                    cleaned.log_files += 1;
                    state.held.push(Held {
                        removed,
                        since_ms: Some(now_ms),
                    });
                }
                Ok(None) => break,
                Err(error) => {
                    let file = self
                        .log_directory
                        .join(offset_name(self.reader.log.min_offset()));
                    let file = file.display();
                    let retry_ms = self.rules.retry_ms;
                    tracing::error!(%file, %error, retry_ms, "cannot delete, will try again");
                    state.retry_at_ms = now_ms.saturating_add(retry_ms);
                    break;
                }
            }
        }
        cleaned
    }

    /// Whether the first file may go: it is not the last, it is flushed and dispatched, and old
    /// enough.
    fn may_go(&self, leave: Leave) -> bool {
        let starts = self.reader.log.starts();
        let (Some(first), Some(next)) = (starts.first(), starts.get(1)) else {
            return false;
        };
        let is_needed =
            *next > self.upkeep.acks.flushed() || *next > self.upkeep.progress.dispatched();
        match leave {
            _ if is_needed => false,
            Leave::None => false,
            Leave::Any => true,
            Leave::Expired => {
                let written_ms = self.written_ms(*first, *next);
                written_ms.is_some_and(|at| self.rules.is_expired(at, self.upkeep.clock.wall_ms()))
            }
        }
    }

    /// When a file was written last: the first message of the next file came right behind its
    /// last one; a younger time of the file itself counts too. None where neither can be read.
    fn written_ms(&self, first: u64, next: u64) -> Option<i64> {
        let stored_ms = self.reader.stored_ms(next.cast_signed());
        let file = self.log_directory.join(offset_name(first));
        let modified = fs::metadata(file).and_then(|found| found.modified());
        let modified_ms = modified.ok().and_then(|time| {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since.as_millis()).ok()
        });
        stored_ms.max(modified_ms)
    }

    /// Has queues and index begin where the log does.
    fn clean_derived(&self, state: &mut State<F>, cleaned: &mut Cleaned, sleep: Sleep<'_>) {
        let start = self.reader.log.min_offset();
        let queues = self.reader.queues.all();
        for queue in &queues {
            queue.set_min_from(start.cast_signed());
        }
        for queue in &queues {
            if !self.clean_queue(queue, start.cast_signed(), cleaned, sleep) {
                return;
            }
        }
        if let Some(index) = &self.reader.index {
            match index.delete_before(start.cast_signed()) {
                Ok(files) => cleaned.index_files += files,
                Err(error) => return tracing::error!(%error, "cannot clean the index"),
            }
        }
        state.cleaned_to = start;
    }

    /// Deletes leading files of a queue; false if the run must end.
    fn clean_queue(
        &self,
        queue: &ConsumeQueue,
        start: i64,
        cleaned: &mut Cleaned,
        sleep: Sleep<'_>,
    ) -> bool {
        match queue.delete_before(start) {
            Ok(0) => true,
            Ok(files) => {
                cleaned.queue_files += files;
                sleep(self.rules.queue_pause)
            }
            Err(error) => {
                let (topic, queue_id) = (queue.topic(), queue.queue_id());
                tracing::error!(topic, queue_id, %error, "cannot clean a consume queue");
                true
            }
        }
    }

    /// Gives back the blocks of deleted files that nobody reads any more: here, so that no reader
    /// has to wait for the file system. Says once which reader hangs.
    fn let_go(&self, state: &mut State<F>) {
        let now_ms = self.upkeep.clock.monotonic_ms();
        state.held.retain_mut(|held| {
            let is_read = held.removed.is_read();
            if is_read
                && held
                    .since_ms
                    .is_some_and(|at| now_ms - at >= self.rules.retry_ms)
            {
                held.since_ms = None;
                let start = held.removed.start();
                tracing::warn!(
                    start,
                    "a deleted file is still read, its blocks stay in use"
                );
            }
            is_read
        });
    }
}
