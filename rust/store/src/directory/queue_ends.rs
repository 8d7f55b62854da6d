//! The end of each consume queue, in `{root}/mqstack/queue_ends`. It is written by a clean stop,
//! after each recovery, and once a minute. Entries at the end of a queue that damage has zeroed
//! leave no other trace, so a queue that is shorter than its recorded end is completed from the
//! log.
//!
//! File format: [`MAGIC`], the end of the log, one row per queue sorted by topic and queue id,
//! CRC-32. A row contains the length of the topic's name (2 bytes), the name, the queue id (4
//! bytes), one past the last queue offset, and the end of the last entry's record in the log (8
//! bytes each), all big-endian. The file is searched without decoding it, because objects for
//! 40,000 queues would keep much memory in use.

use std::cmp::Ordering;
use std::io;
use std::path::{Path, PathBuf};

use crate::files::io_error;
use crate::types::StoreError;
use mq_log::fs;
use mq_statefile::own_json;

const MAGIC: &[u8; 8] = b"MQQENDS1";
/// Bytes before the first row.
const HEAD_BYTES: usize = 16;
/// Bytes of a row without the name.
const ROW_BYTES: usize = 22;
/// Longest file that is read, bytes.
const BYTES_MAX: u64 = 64 << 20;

/// The ends of all queues of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct QueueEnds {
    /// End of the log: the records of all rows start before it.
    pub(crate) log_end: u64,
    /// The rows as in the file.
    rows: Vec<u8>,
    /// The start of each row.
    starts: Vec<u32>,
}

/// The end of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndOfQueue<'a> {
    pub(crate) topic: &'a str,
    pub(crate) queue_id: i32,
    /// One past the last queue offset.
    pub(crate) end: i64,
    /// End of the last entry's record in the log.
    pub(crate) end_physical: i64,
}

/// Whether the store at `root` has a file of queue ends that does not match its checksum.
pub fn is_damaged(root: &Path) -> Result<bool, StoreError> {
    Ok(QueueEnds::read(root)? == Found::Damaged)
}

/// Removes the file of the store at `root`, if there is one.
pub(crate) fn remove(root: &Path) -> Result<(), StoreError> {
    let path = path_of(root);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(&path)(error)),
        _ => Ok(()),
    }
}

/// What a start found of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Recorded ends.
    Ends(QueueEnds),
    /// There is no file: the store is new, or RocketMQ's.
    Missing,
    /// The file has another length, checksum or content than was written.
    Damaged,
}

impl QueueEnds {
    /// An empty list for a log that ends at `log_end`.
    pub(crate) fn at(log_end: u64) -> Self {
        Self {
            log_end,
            ..Self::default()
        }
    }

    /// Reads the recorded ends.
    pub(crate) fn read(root: &Path) -> Result<Found, StoreError> {
        let path = path_of(root);
        match fs::read_own(&path, BYTES_MAX) {
            Ok(bytes) => Ok(Self::parse(&bytes).map_or(Found::Damaged, Found::Ends)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Missing),
            Err(error) => Err(io_error(&path)(error)),
        }
    }

    /// Writes and syncs the file.
    pub(crate) fn save(&self, root: &Path) -> Result<(), StoreError> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.rows.len() + 4);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.log_end.to_be_bytes());
        bytes.extend_from_slice(&self.rows);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        Ok(own_json::replace(&path_of(root), &bytes)?)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (content, crc) = bytes.split_last_chunk()?;
        let rest = content.strip_prefix(MAGIC)?;
        let (log_end, rows) = rest.split_first_chunk()?;
        if u32::from_be_bytes(*crc) != crc32fast::hash(content) {
            return None;
        }
        let mut ends = Self::at(u64::from_be_bytes(*log_end));
        let mut at = 0;
        while at < rows.len() {
            ends.starts.push(u32::try_from(at).ok()?);
            at += row_at(rows, at)?.topic.len() + ROW_BYTES;
        }
        ends.rows = rows.to_vec();
        Some(ends)
    }

    /// Adds the end of a queue. Call it in order of topic and queue id.
    pub(crate) fn push(&mut self, end: EndOfQueue<'_>) {
        let name_bytes = u16::try_from(end.topic.len());
        let start = u32::try_from(self.rows.len());
        let (Ok(name_bytes), Ok(start)) = (name_bytes, start) else {
            return; // a folder's name cannot be that long
        };
        self.starts.push(start);
        self.rows.extend_from_slice(&name_bytes.to_be_bytes());
        self.rows.extend_from_slice(end.topic.as_bytes());
        self.rows.extend_from_slice(&end.queue_id.to_be_bytes());
        self.rows.extend_from_slice(&end.end.to_be_bytes());
        self.rows.extend_from_slice(&end.end_physical.to_be_bytes());
    }

    /// The end of a queue.
    pub(crate) fn of(&self, topic: &str, queue_id: i32) -> Option<EndOfQueue<'_>> {
        let order = |start: &u32| {
            let row = row_at(&self.rows, *start as usize);
            row.map_or(Ordering::Less, |row| {
                (row.topic, row.queue_id).cmp(&(topic, queue_id))
            })
        };
        let at = self.starts.binary_search_by(order).ok()?;
        row_at(&self.rows, self.starts[at] as usize)
    }

    /// The ends of all queues.
    pub(crate) fn all(&self) -> impl Iterator<Item = EndOfQueue<'_>> {
        let starts = self.starts.iter();
        starts.filter_map(|start| row_at(&self.rows, *start as usize))
    }
}

/// The row that starts at `at`; None if it is not complete.
fn row_at(rows: &[u8], at: usize) -> Option<EndOfQueue<'_>> {
    let (name_bytes, rest) = rows.get(at..)?.split_first_chunk()?;
    let (topic, rest) = rest.split_at_checked(u16::from_be_bytes(*name_bytes).into())?;
    let (queue_id, rest) = rest.split_first_chunk()?;
    let (end, rest) = rest.split_first_chunk()?;
    let (end_physical, _) = rest.split_first_chunk()?;
    Some(EndOfQueue {
        topic: std::str::from_utf8(topic).ok()?,
        queue_id: i32::from_be_bytes(*queue_id),
        end: i64::from_be_bytes(*end),
        end_physical: i64::from_be_bytes(*end_physical),
    })
}

fn path_of(root: &Path) -> PathBuf {
    root.join("mqstack").join("queue_ends")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_is_found_and_no_damaged_file_is_believed() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(QueueEnds::read(root.path()).unwrap(), Found::Missing);
        let mut ends = QueueEnds::at(7_000);
        let row = |topic, queue_id, end| EndOfQueue {
            topic,
            queue_id,
            end,
            end_physical: end * 100,
        };
        let rows = [row("A", 0, 3), row("A", 11, 5), row("Ä-topic", 2, 70)];
        rows.iter().for_each(|row| ends.push(*row));
        ends.save(root.path()).unwrap();
        let found = QueueEnds::read(root.path()).unwrap();
        assert_eq!(found, Found::Ends(ends.clone()));
        assert!(ends.all().eq(rows));
        for row in rows {
            assert_eq!(ends.of(row.topic, row.queue_id), Some(row));
        }
        assert_eq!(ends.of("A", 1), None);
        let bytes = std::fs::read(path_of(root.path())).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(QueueEnds::parse(&damaged), None, "bit {bit}");
        }
        std::fs::write(path_of(root.path()), &bytes[1..]).unwrap();
        assert_eq!(QueueEnds::read(root.path()).unwrap(), Found::Damaged);
        for length in 0..bytes.len() {
            assert_eq!(QueueEnds::parse(&bytes[..length]), None, "{length}");
        }
    }
}
