//! Deleting what is old: files of the log, then what of the queues and the index points below it.
//!
//! Where RocketMQ's rules are unsafe, ours differ:
//! - A file's age is that of its newest message or of its last change, whichever is younger:
//!   times of files alone are lost when a store is copied. A time ahead of the clock is ignored,
//!   so a clock that was wrong for a while keeps nothing.
//! - A file goes only once it is flushed, and dispatched to queues and index.
//! - RocketMQ waits for the readers of a file, and takes it away from them after two minutes. Here
//!   a name goes at once, and the bytes with the last reader; nobody is cut off. A file that hangs
//!   is one whose name could not be removed, or whose reader never ends; both are logged.
//! - A queue never loses its last file, so it never restarts at offset 0 under its consumers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::rules::{FIRST_RUN_MS, MANUAL_RUNS, Rules};
use super::run::{Run, Scope, Sleep, State};
use crate::directory::deleted::Deletion;
use crate::read::reader::Reader;
use crate::settings::Cleaning;
use crate::threads::periodic::Pause;
use crate::types::{Cleaned, StoreError};
use crate::upkeep::Upkeep;

/// Deletes files; one run at a time.
pub(crate) struct Cleaner {
    rules: Mutex<Rules>,
    scope: Scope,
    /// Monotonic time of the first run that nobody asked for.
    first_run_ms: i64,
    /// Runs that the operator still has.
    manual_runs: AtomicU32,
    /// Held for the whole of a run.
    state: Mutex<State>,
    /// Everything deleted since the store was opened.
    total: Mutex<Cleaned>,
}

impl Cleaner {
    /// A cleaner of a store whose log is in `log_directory`.
    pub(crate) fn new(
        rules: Rules,
        reader: Arc<Reader>,
        upkeep: Arc<Upkeep>,
        log_directory: PathBuf,
    ) -> Self {
        let first_run_ms = upkeep.clock.monotonic_ms() + FIRST_RUN_MS;
        Self {
            rules: Mutex::new(rules),
            scope: Scope {
                reader,
                upkeep,
                log_directory,
            },
            first_run_ms,
            manual_runs: AtomicU32::new(0),
            state: Mutex::default(),
            total: Mutex::default(),
        }
    }

    /// Takes other settings, from the next run on.
    pub(crate) fn set(&self, settings: &Cleaning) -> Result<(), StoreError> {
        *self.rules.lock() = Rules::new(settings)?;
        self.scope.upkeep.space.set_ratios(settings);
        Ok(())
    }

    /// One round of the cleaning thread.
    pub(crate) fn round(&self, pause: &Pause) {
        let is_manual = self.manual_runs.load(Ordering::Relaxed) > 0;
        if is_manual || self.scope.upkeep.clock.monotonic_ms() >= self.first_run_ms {
            self.run(&|time| pause.sleep(time));
        }
    }

    /// Gives the operator's runs, as RocketMQ's DELETE_EXPIRED_COMMITLOG does.
    pub(crate) fn ask(&self) {
        self.manual_runs.store(MANUAL_RUNS, Ordering::Relaxed);
    }

    /// A run that the operator waits for.
    pub(crate) fn run_now(&self, sleep: Sleep<'_>) -> Cleaned {
        self.manual_runs.fetch_max(1, Ordering::Relaxed);
        self.run(sleep)
    }

    /// Everything deleted since the store was opened.
    pub(crate) fn total(&self) -> Cleaned {
        *self.total.lock()
    }

    /// Deletes what has to go now.
    pub(crate) fn run(&self, sleep: Sleep<'_>) -> Cleaned {
        self.with_run(sleep, |run| {
            // The disk is not well once poisoned; recovery decides what of the store is sound.
            if self.scope.upkeep.acks.poison().is_none() {
                run.clean(self.take_manual_run());
            }
        })
    }

    /// Drops what the queues and the index say about messages that are gone.
    pub(crate) fn clean_queues(&self) -> Cleaned {
        self.with_run(&|_| true, |run| run.clean_derived())
    }

    /// Deletes the messages of topics: durably, before readers miss them.
    pub(crate) fn delete(
        &self,
        mut topics: BTreeMap<String, Deletion>,
    ) -> Result<Cleaned, StoreError> {
        let Scope { reader, .. } = &self.scope;
        topics.retain(|topic, deletion| {
            let mut queues = deletion.next_offsets.iter();
            queues.any(|(queue_id, next)| reader.min_offset(topic, *queue_id) < *next)
        });
        if topics.is_empty() {
            return Ok(Cleaned::default());
        }
        let mut recorded = Ok(());
        let cleaned = self.with_run(&|_| true, |run| {
            let log_start = reader.log.min_offset().cast_signed();
            recorded = reader.queues.deletions.add(topics.clone(), log_start);
            if recorded.is_err() {
                return;
            }
            for queue in reader.queues.all() {
                if let Some(deletion) = topics.get(queue.topic()) {
                    reader.queues.obey_deletion(&queue);
                    run.clean_queue(&queue, deletion.log_end);
                }
            }
        });
        recorded.map(|()| cleaned)
    }

    fn with_run(&self, sleep: Sleep<'_>, work: impl FnOnce(&mut Run<'_>)) -> Cleaned {
        let rules = self.rules.lock().clone();
        let mut run = Run::new(&self.scope, self.state.lock(), rules, sleep);
        work(&mut run);
        let cleaned = run.finish();
        *self.total.lock() += cleaned;
        cleaned
    }

    fn take_manual_run(&self) -> bool {
        let take = |runs: u32| runs.checked_sub(1);
        let order = Ordering::Relaxed;
        self.manual_runs.fetch_update(order, order, take).is_ok()
    }
}
