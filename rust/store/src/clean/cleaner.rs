//! Deletes expired files of the log, and then the files of queues and index that only point to
//! them.
//!
//! Our rules differ from RocketMQ's where these are unsafe:
//! - The age of a file counts from its newest message or its last modification, whichever is later.
//!   File times alone are lost when a store is copied. A time ahead of the clock is ignored, so a
//!   clock that was wrong for a while does not keep files.
//! - A file is deleted only when it is flushed and dispatched to queues and index.
//! - RocketMQ waits up to two minutes for the readers of a file and then takes it away from them.
//!   We remove the name at once and the bytes with the last reader, so no read is interrupted. A
//!   file whose name cannot be removed, or whose reader does not end, is logged.
//! - A queue always keeps its last file, so it never restarts at offset 0.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::rules::{FIRST_RUN_MS, MANUAL_RUNS, Rules};
use super::run::{Run, Scope, Sleep, State};
use crate::directory::deleted::Deletion;
use crate::settings::Cleaning;
use crate::threads::periodic::Pause;
use crate::types::{Cleaned, StoreError};

/// Deletes files; one step of a run at a time.
pub(crate) struct Cleaner {
    rules: Mutex<Rules>,
    scope: Scope,
    /// Monotonic time of the first run that no operator requested.
    first_run_ms: i64,
    /// Remaining runs that an operator requested.
    manual_runs: AtomicU32,
    /// Held during a step of a run, never during its pauses.
    state: Mutex<State>,
    /// Files deleted since the store was opened.
    total: Mutex<Cleaned>,
}

impl Cleaner {
    /// A cleaner that has not run yet.
    pub(crate) fn new(rules: Rules, scope: Scope) -> Self {
        let first_run_ms = scope.clock.monotonic_ms() + FIRST_RUN_MS;
        Self {
            rules: Mutex::new(rules),
            scope,
            first_run_ms,
            manual_runs: AtomicU32::new(0),
            state: Mutex::default(),
            total: Mutex::default(),
        }
    }

    /// Changes the settings from the next run on.
    pub(crate) fn set(&self, settings: &Cleaning) -> Result<(), StoreError> {
        *self.rules.lock() = Rules::new(settings)?;
        self.scope.space.set_ratios(settings);
        Ok(())
    }

    /// One round of the cleaning thread.
    pub(crate) fn round(&self, pause: &Pause) {
        let is_manual = self.manual_runs.load(Ordering::Relaxed) > 0;
        if is_manual || self.scope.clock.monotonic_ms() >= self.first_run_ms {
            self.run(&|time| pause.sleep(time));
        }
    }

    /// Requests runs at any hour, as RocketMQ's DELETE_EXPIRED_COMMITLOG does.
    pub(crate) fn ask(&self) {
        self.manual_runs.store(MANUAL_RUNS, Ordering::Relaxed);
    }

    /// A run on an operator's thread.
    pub(crate) fn run_now(&self, sleep: Sleep<'_>) -> Cleaned {
        self.manual_runs.fetch_max(1, Ordering::Relaxed);
        self.run(sleep)
    }

    /// Files deleted since the store was opened.
    pub(crate) fn total(&self) -> Cleaned {
        *self.total.lock()
    }

    /// Deletes the files that may be deleted now.
    pub(crate) fn run(&self, sleep: Sleep<'_>) -> Cleaned {
        self.with_run(sleep, |run| {
            // A poisoned store has a failing disk; leave everything to the next start's recovery.
            if self.scope.acks.poison().is_none() {
                run.clean(self.take_manual_run());
            }
        })
    }

    /// Deletes files of queues and index whose messages are all expired.
    pub(crate) fn clean_queues(&self) -> Cleaned {
        self.with_run(&|_| true, |run| run.clean_derived())
    }

    /// Deletes the messages of topics. The deletion is durable before readers see it.
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
