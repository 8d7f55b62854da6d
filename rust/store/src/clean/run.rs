//! One run of the cleaner.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::MutexGuard;

use super::rules::{FILES_PER_RUN, Leave, Rules};
use crate::delay::deliver::Delay;
use crate::derive::dispatch::Progress;
use crate::derive::queues::queue::ConsumeQueue;
use crate::files::offset_name;
use crate::read::reader::Reader;
use crate::types::Cleaned;
use crate::write::ack::Acks;
use crate::write::space::{Pressure, Space};
use mq_base::clock::Clock;
use mq_log::{Removed, Segments, fs};

/// The parts of the store that a cleaner works on.
pub(crate) struct Scope {
    pub(crate) reader: Arc<Reader>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) space: Arc<Space>,
    pub(crate) acks: Arc<Acks>,
    pub(crate) delay: Arc<Delay>,
    pub(crate) progress: Arc<Progress>,
    /// Directory of the log files.
    pub(crate) log_directory: PathBuf,
}

/// Pauses the run; returning false ends it.
pub(crate) type Sleep<'a> = &'a dyn Fn(Duration) -> bool;

/// State that is kept between runs.
pub(crate) struct State {
    /// Log offset up to which queues and index were cleaned.
    cleaned_to: u64,
    /// Monotonic time of the next try after a file could not be deleted.
    retry_at_ms: i64,
    /// Deleted files that still have readers.
    held: Vec<Held>,
}

/// A deleted file. The cleaner frees its blocks, so that no reader blocks on the file system.
struct Held {
    removed: Removed,
    /// Monotonic time of its removal; None after its hanging reader was logged.
    since_ms: Option<i64>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            cleaned_to: 0,
            retry_at_ms: i64::MIN,
            held: Vec::new(),
        }
    }
}

/// A running cleaning. It lets other runs in during its pauses and between two queues, so an
/// operator's request waits for one step of it at most.
pub(crate) struct Run<'a> {
    scope: &'a Scope,
    state: MutexGuard<'a, State>,
    rules: Rules,
    sleep: Sleep<'a>,
    now_ms: i64,
    is_ended: bool,
    cleaned: Cleaned,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        scope: &'a Scope,
        state: MutexGuard<'a, State>,
        rules: Rules,
        sleep: Sleep<'a>,
    ) -> Self {
        let mut run = Self {
            scope,
            state,
            rules,
            sleep,
            now_ms: scope.clock.monotonic_ms(),
            is_ended: false,
            cleaned: Cleaned::default(),
        };
        run.let_go();
        run
    }

    /// Ends the run; returns the numbers of deleted files.
    pub(crate) fn finish(mut self) -> Cleaned {
        self.let_go();
        let cleaned = self.cleaned;
        if cleaned != Cleaned::default() {
            let start = self.log().min_offset();
            tracing::info!(
                log_files = cleaned.log_files,
                queue_files = cleaned.queue_files,
                index_files = cleaned.index_files,
                start,
                "deleted expired files; the commit log now starts at this offset"
            );
        }
        cleaned
    }

    /// Deletes the files that may be deleted now; `is_manual` if an operator asked.
    pub(crate) fn clean(&mut self, is_manual: bool) {
        let pressure = self.scope.space.pressure();
        let wall_ms = self.scope.clock.wall_ms();
        let leave = self.rules.leave(wall_ms, pressure, is_manual);
        if leave == Leave::Any {
            // With many queues, the pauses would delay the deletion of further log files by an
            // hour.
            self.rules.queue_pause = Duration::ZERO;
        }
        if self.now_ms >= self.state.retry_at_ms {
            self.clean_log(leave);
        }
        if self.cleaned.log_files == 0 && pressure > Pressure::None {
            tracing::warn!("the disk fills up, but no commit-log file may be deleted");
        }
        if self.log().min_offset() > self.state.cleaned_to {
            self.clean_derived();
        }
    }

    /// Makes queues and index begin where the log does.
    pub(crate) fn clean_derived(&mut self) {
        let start = self.log().min_offset();
        let queues = self.scope.reader.queues.all();
        // Do this for all queues before the first pause.
        for queue in &queues {
            queue.set_min_from(start.cast_signed());
        }
        self.scope.delay.skip_deleted();
        for queue in &queues {
            self.clean_queue(queue, start.cast_signed());
            if self.is_ended {
                return;
            }
            MutexGuard::bump(&mut self.state);
        }
        if let Some(index) = &self.scope.reader.index {
            match index.delete_before(start.cast_signed()) {
                Ok(files) => self.cleaned.index_files += files,
                Err(error) => return tracing::error!(%error, "cannot clean the index"),
            }
        }
        self.state.cleaned_to = self.state.cleaned_to.max(start);
    }

    /// Deletes leading files of a queue, and hides its entries for messages before `start`.
    pub(crate) fn clean_queue(&mut self, queue: &ConsumeQueue, start: i64) {
        match queue.delete_before(start) {
            Ok(0) => {}
            Ok(files) => {
                self.cleaned.queue_files += files;
                self.pause(self.rules.queue_pause);
            }
            Err(error) => {
                let (topic, queue_id) = (queue.topic(), queue.queue_id());
                tracing::error!(topic, queue_id, %error, "cannot clean a consume queue");
            }
        }
    }

    /// Deletes leading log files, as long as each may be deleted and is not needed.
    fn clean_log(&mut self, leave: Leave) {
        while self.cleaned.log_files < FILES_PER_RUN && self.may_go(leave) {
            if self.cleaned.log_files > 0 {
                self.pause(self.rules.log_pause);
                // Another run may have deleted files during the pause.
                if self.is_ended || !self.may_go(leave) {
                    return;
                }
            }
            match self.log().remove_first() {
                Ok(Some(removed)) => {
                    self.cleaned.log_files += 1;
                    let since_ms = Some(self.now_ms);
                    self.state.held.push(Held { removed, since_ms });
                }
                Ok(None) => return,
                Err(error) => {
                    let file = self.path(self.log().min_offset());
                    let (file, retry_ms) = (file.display(), self.rules.retry_ms);
                    tracing::error!(%file, %error, retry_ms, "cannot delete, will try again");
                    self.state.retry_at_ms = self.now_ms.saturating_add(retry_ms);
                    return;
                }
            }
        }
    }

    /// Sleeps without the lock, or ends the run.
    fn pause(&mut self, time: Duration) {
        let sleep = self.sleep;
        self.is_ended |= !MutexGuard::unlocked(&mut self.state, || sleep(time));
    }

    /// Whether the first file may be deleted: it is not the last one, it is flushed and dispatched,
    /// and it is old enough.
    fn may_go(&self, leave: Leave) -> bool {
        let starts = self.log().starts();
        let Some(next) = starts.get(1) else {
            return false;
        };
        let scope = self.scope;
        let is_needed = *next > scope.acks.flushed() || *next > scope.progress.dispatched();
        let is_old_enough = || match leave {
            Leave::None => false,
            Leave::Any => true,
            Leave::Expired => {
                let wall_ms = scope.clock.wall_ms();
                let written_ms = self.written_ms(&starts, wall_ms);
                written_ms.is_some_and(|at| self.rules.is_expired(at, wall_ms))
            }
        };
        !is_needed && is_old_enough()
    }

    /// When the first of these files was last written: the store time of the next file's first
    /// message, or the file's modification time if that is later. A time ahead of the clock is
    /// ignored; then the later files decide, which are younger. None if no file has a usable time.
    fn written_ms(&self, starts: &[u64], wall_ms: i64) -> Option<i64> {
        starts.windows(2).find_map(|pair| {
            let stored_ms = self.scope.reader.stored_ms(pair[1].cast_signed());
            let times = [stored_ms, self.modified_ms(pair[0])];
            let believed = times.into_iter().flatten().filter(|at| *at <= wall_ms);
            believed.max()
        })
    }

    fn modified_ms(&self, start: u64) -> Option<i64> {
        let modified = fs::metadata(self.path(start)).and_then(|found| found.modified());
        let since = modified.ok()?.duration_since(UNIX_EPOCH);
        i64::try_from(since.unwrap_or_default().as_millis()).ok()
    }

    /// Frees the blocks of deleted files that have no more readers. Logs a hanging reader once.
    fn let_go(&mut self) {
        let reported_at_ms = self.now_ms.saturating_sub(self.rules.retry_ms);
        self.state.held.retain_mut(|held| {
            let is_read = held.removed.is_read();
            if is_read && held.since_ms.is_some_and(|since| since <= reported_at_ms) {
                held.since_ms = None;
                let start = held.removed.start();
                tracing::warn!(
                    start,
                    "a reader still holds a deleted file; its blocks are not free yet"
                );
            }
            is_read
        });
    }

    fn log(&self) -> &'a Segments {
        &self.scope.reader.log
    }

    fn path(&self, start: u64) -> PathBuf {
        self.scope.log_directory.join(offset_name(start))
    }
}
