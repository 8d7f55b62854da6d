//! The life of an open store: the start of its threads, the change of its role, and the close.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::delay::deliver::DelayThread;
use crate::delay::redeliver::Redelivery;
use crate::directory::layout;
use crate::directory::lock::StoreLock;
use crate::files::{io_error, sync_directory};
use crate::recover::{CleanStop, LogEnd};
use crate::running::Running;
use crate::store::Store;
use crate::threads::periodic::{Pause, Periodic};
use crate::types::{Role, StoreError};
use crate::upkeep::log_failure;
use crate::write::deadlines::DeadlineThread;
use crate::write::flush::{FlushThreads, Interval};
use crate::write::space::Waiting;
use mq_log::{Allocator, fs};

/// Pause between looks at the progress of dispatch.
const DISPATCH_LOOK: Duration = Duration::from_millis(1);

impl Store {
    /// Starts the threads of the role in the settings. The dispatcher runs already.
    pub(crate) fn start(&self, lock: StoreLock) -> Result<(), StoreError> {
        let mut running = self.running.lock();
        self.start_threads(running.insert(Running::new(lock)), self.role())
    }

    /// The role.
    pub fn role(&self) -> Role {
        self.puts.appender.role()
    }

    /// Changes the role of the open store: ends the threads that the new role does without, and
    /// starts those that it needs. Puts are refused meanwhile; what was stored before is flushed,
    /// and its puts are settled.
    ///
    /// A slave that becomes master first dispatches the whole log, and its queues continue at their
    /// ends. The log is never cut: if it must be, because its end differs from that of the new
    /// master, close the store, truncate it, and open it in the new role.
    ///
    /// After an error the store keeps its role: [`StoreError::Poisoned`], [`StoreError::Full`] if
    /// the disk is, or [`StoreError::Forbidden`] after a close. Blocks on the disk.
    pub fn set_role(&self, role: Role) -> Result<(), StoreError> {
        let mut running = self.running.lock();
        let Some(running) = running.as_mut() else {
            return Err(StoreError::Forbidden("the store is closed"));
        };
        let before = self.role();
        if role == before {
            return Ok(());
        }
        let changed = self.change_role(running, role);
        if changed.is_err() {
            running.end_all_but(before);
            self.start_threads(running, before)?;
            self.puts.appender.set_role(before);
        }
        changed
    }

    fn change_role(&self, running: &mut Running, role: Role) -> Result<(), StoreError> {
        // Nobody appends during the change.
        self.puts.appender.set_role(Role::ReadOnly);
        self.flush_log()?;
        running.end_all_but(role);
        if role == Role::Master {
            self.wait_dispatched()?;
            let next_offsets = self.derived.queues.next_offsets();
            self.puts.appender.continue_at(next_offsets);
            self.positions.delay.reload(&self.positions.state)?;
        }
        self.start_threads(running, role)?;
        self.puts.appender.set_role(role);
        tracing::info!(?role, "the store has a new role");
        Ok(())
    }

    /// Waits until the whole log is in queues and index.
    fn wait_dispatched(&self) -> Result<(), StoreError> {
        let end = self.log.max_offset();
        while self.dispatcher.progress().dispatched() < end {
            let flusher = &self.puts.flusher;
            if let Some(reason) = flusher.acks.poison() {
                return Err(StoreError::Poisoned(reason.to_owned()));
            }
            if let Some(what) = flusher.space.held_by(Waiting::Dispatch) {
                return Err(StoreError::Full {
                    path: self.root.display().to_string(),
                    source: io::Error::other(what),
                });
            }
            thread::sleep(DISPATCH_LOOK);
        }
        Ok(())
    }

    /// Starts the threads of a role that do not run yet.
    fn start_threads(&self, running: &mut Running, role: Role) -> Result<(), StoreError> {
        let services = &self.services;
        if role.changes_log() {
            self.start_writing(running).map_err(thread_error)?;
        }
        if role == Role::Master && running.deadlines.is_none() {
            let thread = DeadlineThread::start(&self.puts.flusher.acks, services);
            running.deadlines = Some(thread.map_err(thread_error)?);
        }
        if role == Role::Master && running.delay.is_none() {
            let (delay, puts) = (&self.positions.delay, &self.puts);
            let delivery = Redelivery(Arc::clone(puts));
            let thread = DelayThread::start(Arc::clone(delay), delivery, services);
            running.delay = Some(thread.map_err(thread_error)?);
        }
        if running.upkeep.is_none() {
            running.upkeep = Some(self.upkeep.start(services).map_err(thread_error)?);
        }
        Ok(())
    }

    /// Starts the threads that write the log or delete files of it.
    fn start_writing(&self, running: &mut Running) -> io::Result<()> {
        if running.allocator.is_none() {
            let tail = self.puts.appender.tail.lock();
            running.allocator = Some(Allocator::start(&tail.writer, &self.services)?);
        }
        if running.flush.is_none() {
            running.flush = Some(self.flush_threads()?);
        }
        if running.cleaning.is_none() {
            running.cleaning = Some(self.cleaning_thread()?);
        }
        Ok(())
    }

    fn flush_threads(&self) -> io::Result<FlushThreads> {
        let settings = &self.settings;
        let (flusher, services) = (&self.puts.flusher, &self.services);
        if settings.sync_flush {
            return FlushThreads::group_commit(flusher, services);
        }
        let interval = Interval {
            every: Duration::from_millis(settings.flush_interval_ms),
            least_pages: settings.flush_least_pages.into(),
            thorough_ms: settings.flush_thorough_interval_ms.cast_signed(),
        };
        FlushThreads::on_interval(flusher, interval, Arc::clone(&self.clock), services)
    }

    fn cleaning_thread(&self) -> io::Result<Periodic> {
        let every = Duration::from_millis(self.settings.cleaning.interval_ms);
        let cleaner = Arc::clone(&self.cleaner);
        let round = move |pause: &Pause| cleaner.round(pause);
        Periodic::start_pausing("mq-clean", every, &self.services, round)
    }

    /// Stops the threads, flushes, dispatches to the end, saves offsets and checkpoint, and removes
    /// `abort`. After an error, `abort` stays and the next start runs recovery. A queue that lacks
    /// messages of the log is such an error. Idempotent.
    pub fn close(&self) -> Result<(), StoreError> {
        let Some(running) = self.running.lock().take() else {
            return Ok(());
        };
        let Running {
            delay,
            flush,
            upkeep,
            cleaning,
            allocator,
            deadlines,
            lock,
            ..
        } = running;
        drop((delay, cleaning));
        self.puts.appender.close();
        let flushed = self.flush_log();
        drop((flush, allocator, deadlines));
        self.puts.flusher.appended.stop();
        self.dispatcher.join();
        drop(upkeep);
        flushed?;
        self.derived.repair_index(&*self.log, true);
        self.finish()?;
        let dispatched = self.dispatcher.progress().dispatched();
        let end = self.log.max_offset();
        if dispatched < end {
            let what = format!(
                "dispatch ended at {dispatched}, {} bytes before the end of the log",
                end - dispatched
            );
            return Err(StoreError::Poisoned(what));
        }
        self.mark_closed()?;
        let abort = self.root.join(layout::ABORT);
        fs::remove_file(&abort).map_err(io_error(&abort))?;
        sync_directory(&self.root)?;
        drop(lock);
        Ok(())
    }

    /// Makes everything durable; the log is flushed already. A poisoned store only saves the
    /// offsets, because a successful flush now could call pages durable that a failed flush lost.
    fn finish(&self) -> Result<(), StoreError> {
        if let Some(reason) = self.puts.flusher.acks.poison() {
            log_failure(self.positions.save_offsets());
            return Err(StoreError::Poisoned(reason.to_owned()));
        }
        self.derived.flush_all()?;
        self.positions.save()
    }

    /// Records the state of the closed store, which the next open compares.
    fn mark_closed(&self) -> Result<(), StoreError> {
        let (log, derived) = (&*self.log, &self.derived);
        let end = LogEnd::of(log, log.max_offset(), derived.progress.store_timestamp_ms());
        let end = end.map_err(io_error(&self.root.join("commitlog")))?;
        derived.queues.ends(end.log_end).save(&self.root)?;
        let checkpoint_crc = self.positions.checkpoint.crc()?;
        let index = derived.index.as_deref();
        CleanStop::of(end, checkpoint_crc, &derived.queues, index).save(&self.root)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            let root = self.root.display();
            tracing::error!(%error, %root, "the store was not closed cleanly");
        }
    }
}

/// The error of a thread that could not be started.
fn thread_error(source: io::Error) -> StoreError {
    io_error("a thread of the store".as_ref())(source)
}
