//! The life of an open store: the start of its threads, and the close that ends them.

use std::io;
use std::sync::Arc;
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
use crate::types::StoreError;
use crate::upkeep::log_failure;
use crate::write::flush::{FlushThreads, Interval};
use mq_log::{Allocator, fs};

impl Store {
    /// Starts the threads. The dispatcher runs already.
    pub(crate) fn start(&self, lock: StoreLock) -> Result<(), StoreError> {
        let services = &self.services;
        let tail = self.puts.appender.tail.lock();
        let allocator = Allocator::start(&tail.writer, services).map_err(thread_error)?;
        drop(tail);
        let delivery = Redelivery(Arc::clone(&self.puts));
        let delay = DelayThread::start(Arc::clone(&self.positions.delay), delivery, services);
        *self.running.lock() = Some(Running {
            delay: delay.map_err(thread_error)?,
            flush: self.flush_threads().map_err(thread_error)?,
            upkeep: self.upkeep.start(services).map_err(thread_error)?,
            cleaning: self.cleaning_thread().map_err(thread_error)?,
            allocator,
            lock,
        });
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
            lock,
        } = running;
        drop((delay, cleaning));
        self.puts.appender.close();
        let flushed = self.flush_log();
        drop((flush, allocator));
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
