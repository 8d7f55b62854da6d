//! Overwriting damaged bytes with records that neither we nor RocketMQ queue or index.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use super::log_io;
use crate::format::message::{self, RecordView, Version, sys_flag};
use crate::log::{Files, Segments, fs};
use crate::store::files::{create_directory, io_error, sync_directory};
use crate::store::types::StoreError;

/// Longest stand-in record, bytes: within RocketMQ's default limit of a record.
const STAND_IN_BYTES_MAX: u64 = 4 << 20;
/// Topic of stand-in records, for whoever meets one.
const TOPIC: &str = "MQSTACK_HEALED";

/// Saves `[from, to)`, which lies in one file or ends at a file's start, to
/// `{root}/mqstack/quarantine`, and overwrites it with records of type ROLLBACK.
pub(in crate::store) fn heal<F: Files>(
    root: &Path,
    log: &Segments<F>,
    from: u64,
    to: u64,
    store_timestamp_ms: i64,
) -> Result<(), StoreError> {
    let mut at = from;
    while at < to {
        let file_end = log.next_file_start(at);
        let end = to.min(file_end);
        quarantine(root, log, at, end)?;
        if end == file_end {
            let remaining = u32::try_from(end - at).unwrap_or(u32::MAX);
            log.overwrite(at, &message::blank(remaining))
                .map_err(log_io)?;
        } else {
            overwrite(log, at, end, store_timestamp_ms)?;
        }
        at = end;
    }
    Ok(())
}

/// Keeps the damaged bytes for whoever can read something out of them.
fn quarantine<F: Files>(
    root: &Path,
    log: &Segments<F>,
    from: u64,
    to: u64,
) -> Result<(), StoreError> {
    let directory = root.join("mqstack").join("quarantine");
    create_directory(&directory)?;
    let path = directory.join(format!("{from:020}-{to:020}"));
    let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(0)];
    let read = log.read_at(from, &mut bytes).map_err(log_io)?;
    fs::write(&path, &bytes[..read]).map_err(io_error(&path))?;
    fs::File::open(&path)
        .and_then(|file| file.sync_all())
        .map_err(io_error(&path))?;
    sync_directory(&directory)
}

fn overwrite<F: Files>(
    log: &Segments<F>,
    from: u64,
    to: u64,
    store_timestamp_ms: i64,
) -> Result<(), StoreError> {
    let empty = stand_in(0, store_timestamp_ms, &[]);
    let size_min = empty.size() as u64;
    let mut at = from;
    while at < to {
        let left = to - at;
        if left < size_min {
            let what = format!("{left} damaged bytes at {at} are too few for a record");
            let root = "commit log".to_owned();
            return Err(StoreError::Damaged { root, what });
        }
        // Never leave less than one record's bytes for the next round.
        let size = match left {
            left if left <= STAND_IN_BYTES_MAX => left,
            left => STAND_IN_BYTES_MAX.min(left - size_min),
        };
        let body = vec![0; usize::try_from(size - size_min).unwrap_or(0)];
        let mut bytes = Vec::new();
        stand_in(at, store_timestamp_ms, &body).encode(&mut bytes);
        log.overwrite(at, &bytes).map_err(log_io)?;
        at += size;
    }
    Ok(())
}

fn stand_in(offset: u64, store_timestamp_ms: i64, body: &[u8]) -> RecordView<'_> {
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    RecordView {
        version: Version::V1,
        body_crc: message::body_crc(body),
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
        body,
        topic: TOPIC,
        properties: &[],
    }
}
