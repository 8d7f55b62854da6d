//! Whether a store is in use, and the times in its checkpoint.

use std::io;

use super::scan::Scan;
use mq_log::fs::{OpenOptions, open_own};
use mq_store::StoreError;
use mq_store::inspect::io_error;
use mq_store::inspect::is_held;
use mq_store::inspect::layout::ABORT;
use mq_store::inspect::{CHECKPOINT_BYTES, MARGIN_MS};
use mq_store::inspect::{Effect, Foreign, recognise};

/// Facts about a store that can be read without owning it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The store was closed cleanly: there is no `abort` file.
    pub is_clean: bool,
    /// A broker holds the lock.
    pub is_locked: bool,
    /// Store times up to which the log, the queues and the index were flushed, milliseconds since
    /// the epoch; None if the checkpoint is missing or too short.
    pub checkpoint_ms: Option<[i64; 3]>,
}

impl Scan {
    /// Whether the store was closed, whether it is in use, and its checkpoint.
    pub fn state(&self) -> Result<State, StoreError> {
        let abort = self.root.join(ABORT);
        Ok(State {
            is_clean: !abort.try_exists().map_err(io_error(&abort))?,
            is_locked: is_held(&self.root)?,
            checkpoint_ms: self.checkpoint()?,
        })
    }

    /// Files of a newer RocketMQ that we do not read.
    pub fn unread(&self) -> Vec<Foreign> {
        let mut found = recognise(&self.root);
        found.retain(|part| part.effect != Effect::Read);
        found
    }

    /// Store time up to which both log and queues were flushed, less RocketMQ's safety margin.
    pub(super) fn safe_ms(&self) -> Result<i64, StoreError> {
        let times = self.checkpoint()?.unwrap_or_default();
        Ok((times[0].min(times[1]) - MARGIN_MS).max(0))
    }

    /// The times in `checkpoint`; None if the file is missing or too short.
    pub(super) fn checkpoint(&self) -> Result<Option<[i64; 3]>, StoreError> {
        let Some((bytes, CHECKPOINT_BYTES..)) = self.checkpoint_bytes()? else {
            return Ok(None);
        };
        let (times, _) = bytes.as_chunks::<8>();
        let mut found = [0; 3];
        for (time, stored) in found.iter_mut().zip(times) {
            *time = i64::from_be_bytes(*stored);
        }
        Ok(Some(found))
    }

    /// Checksum of the times in the checkpoint; None if the file is missing.
    pub(super) fn checkpoint_crc(&self) -> Result<Option<u32>, StoreError> {
        let found = self.checkpoint_bytes()?;
        Ok(found.map(|(bytes, _)| crc32fast::hash(&bytes)))
    }

    /// The first 24 bytes of `checkpoint`, padded with zeros, and its length; None if it is
    /// missing.
    pub(super) fn checkpoint_bytes(&self) -> Result<Option<([u8; 24], u64)>, StoreError> {
        let path = self.root.join("checkpoint");
        let file = match open_own(&path, OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error(&path)(error)),
        };
        let length = file.metadata().map_err(io_error(&path))?.len();
        let mut bytes = [0; 24];
        let there = usize::try_from(length).unwrap_or(24).min(24);
        let read = file.read_exact_at(&mut bytes[..there], 0);
        read.map_err(io_error(&path))?;
        Ok(Some((bytes, length)))
    }
}
