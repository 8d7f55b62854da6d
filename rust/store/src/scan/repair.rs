//! Overwrites damaged bytes with records that neither we nor RocketMQ queue or index.
//!
//! The shortest record has 91 bytes. A gap under 91 bytes is absorbed by the record before it: its
//! properties are padded with separators, which readers ignore. A gap under 8 bytes at the end of a
//! file cannot hold a blank record, so the record before it is overwritten, too.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use super::log_io;
use crate::files::{create_directory, io_error, sync_directory};
use crate::scan::log_scanner::{LogRead, LogScanner, Step};
use crate::scan::record::STAND_IN_TOPIC;
use crate::types::StoreError;
use mq_format::message::{
    self, BLANK_BYTES, CheckCrc, PROPERTIES_BYTES_MAX, RecordView, Version, sys_flag,
};
use mq_format::properties::PAIR_END;
use mq_log::Segments;
use mq_log::fs::{File, create_own};

/// Longest stand-in record, bytes; within RocketMQ's default limit.
const STAND_IN_BYTES_MAX: u64 = 4 << 20;
/// Length of a record without topic, body and properties.
const STAND_IN_BYTES_MIN: u64 = 91;
/// Bytes of damage saved at once.
const SAVE_BYTES: usize = 1 << 20;
/// A damaged range of the log, and facts about the records before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Damage {
    pub from: u64,
    pub to: u64,
    /// Start of the valid record that ends at `from`, if known.
    pub last: Option<u64>,
    /// Store time for stand-in records, milliseconds since the epoch.
    pub store_timestamp_ms: i64,
}

/// A change of the log by a repair, which queues and index must follow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    /// All former records of this range are gone.
    pub from: u64,
    pub to: u64,
    /// Start and new length of a record that was extended.
    pub grown: Option<(u64, usize)>,
}

impl Damage {
    /// Whether the range can be overwritten so that the log is valid.
    pub(crate) fn can_be_repaired(&self, log: &impl LogRead) -> Result<bool, StoreError> {
        let mut begin = self.from;
        while log.next_file_start(begin) <= self.to {
            let file_end = log.next_file_start(begin);
            if file_end - begin < BLANK_BYTES as u64 && self.last.is_none() {
                return Ok(false);
            }
            begin = file_end;
        }
        match self.to - begin {
            0 | STAND_IN_BYTES_MIN.. => Ok(true),
            few if begin == self.from => Ok(self.grown(log, few)?.is_some()),
            _ => Ok(false),
        }
    }

    /// Saves the bytes to `{root}/mqstack/quarantine` and overwrites them. Returns the change that
    /// queues must follow.
    pub(crate) fn repair(&self, root: &Path, log: &Segments) -> Result<Change, StoreError> {
        let mut at = self.from;
        let mut change = Change {
            from: self.from,
            to: self.to,
            grown: None,
        };
        while at < self.to {
            let file_end = log.next_file_start(at);
            let end = self.to.min(file_end);
            let few = end - at;
            if end == file_end {
                if few < BLANK_BYTES as u64 {
                    at = self.last.unwrap_or(at);
                    change.from = at;
                }
                end_file(root, log, at, end)?;
            } else if few < STAND_IN_BYTES_MIN {
                quarantine(root, log, at, end)?;
                if let Some((last, bytes)) = self.grown(log, few)? {
                    log.overwrite(last, &bytes).map_err(log_io)?;
                    change.grown = Some((last, bytes.len()));
                }
            } else {
                quarantine(root, log, at, end)?;
                stand_in(log, at, end, self.stand_in_timestamp_ms(log)?)?;
            }
            at = end;
        }
        Ok(change)
    }

    /// Store time of stand-in records. If no time before the damage is known, use the time of the
    /// record after it, because RocketMQ's recovery does not start at a file whose first record has
    /// no time.
    fn stand_in_timestamp_ms(&self, log: &impl LogRead) -> Result<i64, StoreError> {
        if self.store_timestamp_ms > 0 {
            return Ok(self.store_timestamp_ms);
        }
        let mut scanner = LogScanner::from(self.to);
        let Step::Record(bytes) = scanner.step(log, u64::MAX).map_err(log_io)? else {
            return Ok(self.store_timestamp_ms);
        };
        let record = RecordView::parse(bytes, CheckCrc::No).ok();
        Ok(record.map_or(self.store_timestamp_ms, |record| record.store_timestamp_ms))
    }

    /// The record before the damage, extended by `more` bytes; None if that is impossible.
    fn grown(&self, log: &impl LogRead, more: u64) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let Some(last) = self.last else {
            return Ok(None);
        };
        let mut scanner = LogScanner::from(last);
        let Step::Record(bytes) = scanner.step(log, self.from).map_err(log_io)? else {
            return Ok(None);
        };
        let Ok(record) = RecordView::parse(bytes, CheckCrc::No) else {
            return Ok(None);
        };
        let mut text = record.properties.to_vec();
        text.resize(text.len() + usize::try_from(more).unwrap_or(0), PAIR_END);
        let mut grown = Vec::new();
        if text.len() <= PROPERTIES_BYTES_MAX {
            let properties = text.as_slice();
            RecordView {
                properties,
                ..record
            }
            .encode(&mut grown);
        }
        let is_right = last + grown.len() as u64 == self.to;
        Ok(is_right.then_some((last, grown)))
    }
}

/// Ends a file with a blank record at `from`; creates the file if it is missing.
fn end_file(root: &Path, log: &Segments, from: u64, file_end: u64) -> Result<(), StoreError> {
    let blank = message::blank(u32::try_from(file_end - from).unwrap_or(u32::MAX));
    let is_missing = log.read_at(from, &mut [0]).map_err(log_io)? == 0;
    if is_missing {
        return log.fill_in(from, &blank).map_err(log_io);
    }
    quarantine(root, log, from, file_end)?;
    log.overwrite(from, &blank).map_err(log_io)
}

/// Saves the damaged bytes, so that a person can still examine them. Zeros take no space.
pub(crate) fn quarantine(
    root: &Path,
    log: &Segments,
    from: u64,
    to: u64,
) -> Result<(), StoreError> {
    let directory = root.join("mqstack").join("quarantine");
    create_directory(&directory)?;
    let path = directory.join(format!("{from:020}-{to:020}"));
    let file = create_own(&path).map_err(io_error(&path))?;
    save(log, from, to, &file, &path)?;
    sync_directory(&directory)
}

fn save(log: &Segments, from: u64, to: u64, file: &File, path: &Path) -> Result<(), StoreError> {
    let room = usize::try_from(to - from).unwrap_or(SAVE_BYTES);
    let mut bytes = vec![0; room.min(SAVE_BYTES)];
    let mut at = from;
    file.set_len(to - from).map_err(io_error(path))?;
    while at < to {
        at = log.next_data(at).map_err(log_io)?.min(to);
        let count = bytes
            .len()
            .min(usize::try_from(to - at).unwrap_or(SAVE_BYTES));
        let read = log.read_at(at, &mut bytes[..count]).map_err(log_io)?;
        if read == 0 {
            break;
        }
        file.write_all_at(&bytes[..read], at - from)
            .map_err(io_error(path))?;
        at += read as u64;
    }
    file.sync_all().map_err(io_error(path))
}

/// Fills `[from, to)`, at least as long as the shortest record, with records of type ROLLBACK.
fn stand_in(log: &Segments, from: u64, to: u64, store_timestamp_ms: i64) -> Result<(), StoreError> {
    let mut at = from;
    while at < to {
        // Always leave enough bytes for the next record.
        let size = match to - at {
            left if left <= STAND_IN_BYTES_MAX => left,
            left => STAND_IN_BYTES_MAX.min(left - STAND_IN_BYTES_MIN),
        };
        let bytes = stand_in_record(at, size, store_timestamp_ms);
        log.overwrite(at, &bytes).map_err(log_io)?;
        at += size;
    }
    Ok(())
}

fn stand_in_record(offset: u64, size: u64, store_timestamp_ms: i64) -> Vec<u8> {
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let room = usize::try_from(size - STAND_IN_BYTES_MIN).unwrap_or(0);
    let topic = &STAND_IN_TOPIC[..STAND_IN_TOPIC.len().min(room)];
    let body = vec![0; room - topic.len()];
    let record = RecordView {
        version: Version::V1,
        body_crc: message::body_crc(&body),
        queue_id: 0,
        flag: 0,
        queue_offset: 0,
        physical_offset: offset.cast_signed(),
        sys_flag: sys_flag::ROLLBACK,
        born_timestamp_ms: store_timestamp_ms,
        born_host: nowhere,
        store_timestamp_ms,
        store_host: nowhere,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: &body,
        topic,
        properties: &[],
    };
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    bytes
}
