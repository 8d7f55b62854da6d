//! The log of a slave: bytes of its master's log are appended beside the put path.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::store::Store;
use crate::threads::bell::Hold;
use crate::types::{Role, StoreError};
use crate::write::append::{Appender, Tail};
use mq_base::clock::Clock;
use mq_base::services::Services;
use mq_format::message::{self, BLANK_BYTES, Head};
use mq_log::{WriteError, Writer};

/// Bytes of a record that have its store time.
const HEAD_BYTES: usize = 128;
/// Old bytes are dropped from memory after this many were read, and at the end of a file.
const DROP_BYTES: u64 = 1 << 20;
/// Largest piece of a file that the kernel keeps as one page. It drops no such page in part, so one
/// that lies across the end of a drop goes with the next drop.
const PAGE_BYTES_MAX: u64 = 2 << 20;
/// Longest wait for a log file or blocks that a slow disk is creating.
const STALL_MAX: Duration = Duration::from_secs(5);

impl Store {
    /// Failures of the store's threads, for threads that work for it.
    pub fn services(&self) -> Arc<Services> {
        Arc::clone(&self.services)
    }

    /// The store's clock.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// Start and end of the written log, bytes.
    pub fn raw_range(&self) -> (u64, u64) {
        // A cleaning may raise the start after the end was read, so the start is bounded by it.
        let end = self.log.max_offset();
        (self.log.min_offset().min(end), end)
    }

    /// Store time of the newest record, wall milliseconds; None for a log without one.
    pub fn last_store_time_ms(&self) -> Option<i64> {
        let newest_ms = &self.puts.appender.last_store_timestamp_ms;
        Some(newest_ms.load(Ordering::Acquire)).filter(|newest_ms| *newest_ms > 0)
    }

    /// Store time of the record that begins at `offset`, wall milliseconds; that of the next file's
    /// first record if a file ends there. None if no record begins there.
    pub fn raw_store_time_ms(&self, offset: u64) -> Option<i64> {
        let mut head = [0; HEAD_BYTES];
        let mut at = offset;
        for _ in 0..2 {
            let read = self.log.read_at(at, &mut head).ok()?;
            let head = &head[..read];
            match Head::parse(head) {
                Head::Blank => at = self.log.next_file_start(at),
                Head::Record(_) if message::stated_offset(head) == Some(at.cast_signed()) => {
                    return message::stated_store_timestamp(head);
                }
                _ => return None,
            }
        }
        None
    }

    /// Length of the log's files, bytes.
    pub fn log_file_bytes(&self) -> u64 {
        self.log.file_size()
    }

    /// Reads bytes of one file of the log, as many as fit; 0 outside the log. Old bytes do not stay
    /// in memory, which consumers need for newer ones. Blocks on the disk.
    pub fn read_raw(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let read = self.log.read_at(offset, out)?;
        if self.reader.is_cold_at(offset.cast_signed()) {
            self.drop_behind(offset, read as u64);
        }
        Ok(read)
    }

    /// Drops the pages of bytes that were read in sequence up to `offset + read`, if a drop is due.
    fn drop_behind(&self, offset: u64, read: u64) {
        let file_bytes = self.log.file_size();
        let from = offset % file_bytes;
        let to = from + read;
        let dropped = from - from % DROP_BYTES;
        if to >= dropped + DROP_BYTES || to == file_bytes {
            let file_start = offset - from;
            let again = dropped.saturating_sub(PAGE_BYTES_MAX);
            self.log.will_not_read(file_start + again, file_start + to);
        }
    }

    /// Waits until the log has grown beyond `offset`, at most this long. The last check may be as
    /// early as the call.
    pub fn wait_beyond(&self, offset: u64, at_most: Duration) {
        let is_news = || self.log.max_offset() > offset;
        self.puts.flusher.sending.wait(at_most, is_news);
    }

    /// Wakes every thread in [`Store::wait_beyond`].
    pub fn wake_senders(&self) {
        self.puts.flusher.sending.ring();
    }

    /// If puts wait for slaves, the puts of this thread go to them a part at a time until the
    /// result is dropped: a wake-up for each costs as much as the put.
    pub fn hold_sends(&self) -> Option<Hold<'_>> {
        self.awaits_slaves()
            .then(|| self.puts.flusher.sending.hold())
    }

    /// Appends whole records that the master has at `offset`, in one file; the last may be the
    /// blank record that ends the file. `store_timestamp_ms` is the last record's, None if there is
    /// only a blank one. An empty log begins at `offset`, the start of a file. Returns the
    /// new end of the log.
    ///
    /// With ASYNC_FLUSH the bytes are written on return, with SYNC_FLUSH after
    /// [`Store::settle_raw`].
    ///
    /// # Errors
    /// Nothing was appended: [`StoreError::Forbidden`] unless this is an open slave whose log ends
    /// at `offset`, [`StoreError::Full`] and [`StoreError::Io`] if there is no room. The store is
    /// unusable after [`StoreError::Poisoned`].
    pub fn append_raw(
        &self,
        offset: u64,
        bytes: &[u8],
        store_timestamp_ms: Option<i64>,
    ) -> Result<u64, StoreError> {
        let appender = &self.puts.appender;
        let appended = loop {
            match appender.append_raw(offset, bytes, store_timestamp_ms) {
                Err(Raw::NotReady) if appender.stall.wait(STALL_MAX) => {}
                other => break other,
            }
        };
        appended.map_err(|refused| self.raw_error(refused))?;
        let flusher = &self.puts.flusher;
        if !self.settings.sync_flush {
            flusher.ring();
        } else if flusher.log.is_much_unwritten() {
            self.settle_raw()?;
        }
        Ok(offset + bytes.len() as u64)
    }

    /// Makes the log go on at `offset`, the start of a later file: the master has deleted what is
    /// between. The current file ends with a blank record, and each file until `offset` is one, so
    /// that the records before them stay readable.
    ///
    /// # Errors
    /// As [`Store::append_raw`]. After [`StoreError::Full`] or [`StoreError::Io`] the log may
    /// already end between, at the end of a file; a later call continues there.
    pub fn skip_raw(&self, offset: u64) -> Result<(), StoreError> {
        let appender = &self.puts.appender;
        loop {
            match appender.skip_file(offset) {
                Ok(position) if position >= offset => break,
                Ok(_) => {}
                Err(Raw::NotReady) if appender.stall.wait(STALL_MAX) => {}
                Err(refused) => return Err(self.raw_error(refused)),
            }
        }
        self.settle_raw().map(drop)
    }

    /// Makes appended bytes as durable as `flushDiskType` says: with SYNC_FLUSH it flushes them,
    /// which also makes them readable. Returns the end of the log. Blocks on the disk.
    pub fn settle_raw(&self) -> Result<u64, StoreError> {
        if self.settings.sync_flush {
            self.flush_log()?;
        }
        Ok(self.log.max_offset())
    }

    /// Flushes appended bytes, whatever `flushDiskType` says. Returns the end of the flushed log.
    /// Blocks on the disk.
    pub fn flush_raw(&self) -> Result<u64, StoreError> {
        self.flush_log()?;
        Ok(self.puts.flusher.acks.flushed())
    }

    fn raw_error(&self, refused: Raw) -> StoreError {
        let path = self.root.join("commitlog").display().to_string();
        match refused {
            Raw::Refused(why) => StoreError::Forbidden(why),
            Raw::NotReady => StoreError::Io {
                path,
                source: io::Error::from(io::ErrorKind::TimedOut),
            },
            Raw::NoRoom(source) if mq_log::fs::is_full(&source) => {
                StoreError::Full { path, source }
            }
            Raw::NoRoom(source) => StoreError::Io { path, source },
            Raw::Poisoned => {
                self.puts.flusher.acks.settle_poisoned();
                self.poisoned()
            }
        }
    }

    fn poisoned(&self) -> StoreError {
        let reason = self.puts.flusher.acks.poison().unwrap_or_default();
        StoreError::Poisoned(reason.to_owned())
    }
}

/// Why raw bytes were not appended.
#[derive(Debug)]
enum Raw {
    Refused(&'static str),
    /// The disk is slow to provide space: try again after the stall.
    NotReady,
    NoRoom(io::Error),
    Poisoned,
}

impl Appender {
    /// See [`Store::append_raw`].
    fn append_raw(
        &self,
        offset: u64,
        bytes: &[u8],
        store_timestamp_ms: Option<i64>,
    ) -> Result<(), Raw> {
        let mut tail = self.tail.lock();
        let writer = self.writer_of_slave(&mut tail)?;
        let file_bytes = writer.segments().file_size();
        if writer.position() != offset {
            let is_first = writer.segments().starts().is_empty();
            if !is_first || !offset.is_multiple_of(file_bytes) {
                return Err(Raw::Refused("the bytes do not continue the slave's log"));
            }
            writer.begin_at(offset);
        }
        if offset % file_bytes + bytes.len() as u64 > file_bytes {
            return Err(Raw::Refused("the bytes do not fit in one file of the log"));
        }
        let written = writer.write_copy(bytes);
        written.map_err(|error| self.raw_failure(error))?;
        if let Some(timestamp_ms) = store_timestamp_ms {
            self.last_store_timestamp_ms
                .store(timestamp_ms, Ordering::Release);
        }
        Ok(())
    }

    /// Fills the rest of the current file with a blank record. Returns the new end of the log,
    /// which is unchanged if it is `offset` already.
    fn skip_file(&self, offset: u64) -> Result<u64, Raw> {
        let mut tail = self.tail.lock();
        let writer = self.writer_of_slave(&mut tail)?;
        let (position, remaining) = (writer.position(), writer.remaining());
        let is_start = offset.is_multiple_of(writer.segments().file_size());
        if position > offset || !is_start || remaining < BLANK_BYTES as u64 {
            return Err(Raw::Refused(
                "the master's first offset is no start of a file after the end of this log",
            ));
        }
        if position < offset {
            let blank = message::blank(u32::try_from(remaining).unwrap_or(u32::MAX));
            let rolled = writer.roll(&[&blank]);
            rolled.map_err(|error| self.raw_failure(error))?;
        }
        Ok(writer.position())
    }

    fn writer_of_slave<'a>(&self, tail: &'a mut Tail) -> Result<&'a mut Writer, Raw> {
        if self.role() != Role::Slave || tail.is_closed {
            return Err(Raw::Refused("only an open slave takes its master's bytes"));
        }
        match self.acks.poison() {
            Some(_) => Err(Raw::Poisoned),
            None => Ok(&mut tail.writer),
        }
    }

    fn raw_failure(&self, error: WriteError) -> Raw {
        match error {
            WriteError::NotReady => Raw::NotReady,
            WriteError::NoRoom(cause) => Raw::NoRoom(cause),
            WriteError::Failed(cause) => {
                let reason = format!("append to the commit log: {cause}");
                self.acks.poison_silently(reason);
                Raw::Poisoned
            }
        }
    }
}
