//! Selects records of the log by a filter, chunk by chunk, and finds the next record after damage.

use super::log::LogDirectory;
use super::scan::{Scan, log_error};
use mq_format::message::{BLANK_BYTES, CheckCrc, Head, RecordView};
use mq_format::properties;
use mq_store::StoreError;
use mq_store::inspect::scan::{LastSeen, LogRead, LogScanner, Step, good_record, next_record};

/// Most bytes of log read for one chunk.
const SCAN_BYTES_MAX: u64 = 64 << 20;
/// Largest backward step of store times, milliseconds; brokers allow no larger one.
const CLOCK_MARGIN_MS: i64 = 60_000;
/// The search ends after this many records in a row beyond the last wanted time. A single record
/// with a wrong timestamp does not end it.
const BEYOND_MAX: usize = 1_024;
/// Most bytes of a chunk.
const WHOLE_BYTES_MAX: usize = 64 << 20;
/// Bytes read at once: small enough that record sizes are parsed while the bytes are in the cache.
const PIECE_BYTES: usize = 128 << 10;

/// Conditions on records; None accepts all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    /// Only records that start before this physical offset.
    pub stop: Option<i64>,
    /// Only this topic.
    pub topic: Option<&'a str>,
    /// Only this queue.
    pub queue_id: Option<i32>,
    /// Only messages with this tag, or with one of several: `TagA || TagB`.
    pub tag: Option<&'a str>,
    /// Only messages stored at this time or later, milliseconds since the epoch.
    pub begin_ms: Option<i64>,
    /// Only messages stored at this time or earlier.
    pub end_ms: Option<i64>,
}

/// Why a chunk of selected records ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The chunk is full: continue at its `next_offset`.
    More,
    /// No later record can pass the filter.
    Stop,
    /// No record starts at `next_offset`: the log ends there or is damaged.
    Unreadable,
}

impl Ended {
    /// The word that Python receives.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::More => "more",
            Self::Stop => "stop",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Records that passed the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// The records' bytes, one after the other.
    pub bytes: Vec<u8>,
    /// Number of records.
    pub count: usize,
    /// Start of the next chunk.
    pub next_offset: i64,
    /// Why the chunk ended.
    pub ended: Ended,
}

/// The result of [`Scan::read_range`].
#[derive(Debug, Clone, Copy)]
pub(super) struct ByteRange {
    /// Bytes of records.
    pub(super) bytes: usize,
    /// Start of the next chunk.
    pub(super) next_offset: i64,
    /// Why the chunk ended.
    pub(super) ended: Ended,
}

impl Filter<'_> {
    fn passes(&self, record: &RecordView<'_>) -> bool {
        self.topic.is_none_or(|topic| topic == record.topic)
            && self
                .queue_id
                .is_none_or(|queue_id| queue_id == record.queue_id)
            && self
                .begin_ms
                .is_none_or(|begin| record.store_timestamp_ms >= begin)
            && self
                .end_ms
                .is_none_or(|end| record.store_timestamp_ms <= end)
            && self.tag.is_none_or(|tags| {
                properties::get(record.properties, properties::TAGS)
                    .is_some_and(|own| tags.split("||").any(|tag| tag.trim().as_bytes() == own))
            })
    }

    /// Whether every record before `stop` passes.
    pub(super) fn is_for_all(&self) -> bool {
        self.topic.is_none()
            && self.queue_id.is_none()
            && self.tag.is_none()
            && self.begin_ms.is_none()
            && self.end_ms.is_none()
    }

    fn is_beyond(&self, record: &RecordView<'_>) -> bool {
        let end = self.end_ms.map(|end| end.saturating_add(CLOCK_MARGIN_MS));
        end.is_some_and(|end| record.store_timestamp_ms > end)
    }
}

impl Scan {
    /// The next records from `offset` on that pass: at least one and about `max_bytes`, unless the
    /// chunk ends for another reason. Reads at most 64 MiB of log.
    pub fn select(
        &self,
        offset: i64,
        max_bytes: usize,
        filter: &Filter<'_>,
        check_crc: CheckCrc,
    ) -> Result<Selected, StoreError> {
        let start = offset.max(0).cast_unsigned();
        if filter.is_for_all()
            && let Some(found) = self.select_all(start, max_bytes, filter.stop, check_crc)?
        {
            return Ok(found);
        }
        let start = self.skip_files(start, filter)?;
        let end = self.log.max_offset();
        let stop = filter.stop.map_or(end, |stop| stop.max(0).cast_unsigned());
        let mut scanner = LogScanner::from(start);
        let mut found = Selected {
            bytes: Vec::new(),
            count: 0,
            next_offset: start.cast_signed(),
            ended: Ended::More,
        };
        let mut beyond = 0;
        while found.bytes.len() < max_bytes.max(1) && scanner.offset() - start < SCAN_BYTES_MAX {
            let at = scanner.offset().cast_signed();
            if scanner.offset() >= stop && stop < end {
                found.ended = Ended::Stop;
                break;
            }
            match scanner.step(&self.log, end).map_err(log_error(at))? {
                Step::Record(bytes) => {
                    let Some(record) = record_at(at, bytes, check_crc) else {
                        found.ended = Ended::Unreadable;
                        break;
                    };
                    beyond = if filter.is_beyond(&record) {
                        beyond + 1
                    } else {
                        0
                    };
                    if filter.passes(&record) {
                        found.bytes.extend_from_slice(bytes);
                        found.count += 1;
                    }
                }
                Step::Blank => {}
                Step::Invalid | Step::End => {
                    found.ended = Ended::Unreadable;
                    break;
                }
            }
            found.next_offset = scanner.offset().cast_signed();
            if beyond >= BEYOND_MAX {
                found.ended = Ended::Stop;
                break;
            }
        }
        Ok(found)
    }

    /// Like `select` if every record passes, but without copying the bytes. None if `read_range`
    /// finds no chunk, for example before a record that is longer than the chunk.
    fn select_all(
        &self,
        start: u64,
        max_bytes: usize,
        stop: Option<i64>,
        check_crc: CheckCrc,
    ) -> Result<Option<Selected>, StoreError> {
        let mut bytes = Vec::new();
        let Some(range) = self.read_range(start, max_bytes, stop, &mut bytes)? else {
            return Ok(None);
        };
        bytes.truncate(range.bytes);
        let (mut used, mut count) = (0, 0);
        while used < bytes.len() {
            let at = (start + used as u64).cast_signed();
            let Some(record) = record_at(at, &bytes[used..], check_crc) else {
                break;
            };
            used += record.size();
            count += 1;
        }
        let is_whole = used == bytes.len();
        bytes.truncate(used);
        let unreadable_at = (start + used as u64).cast_signed();
        Ok(Some(Selected {
            bytes,
            count,
            next_offset: if is_whole {
                range.next_offset
            } else {
                unreadable_at
            },
            ended: if is_whole {
                range.ended
            } else {
                Ended::Unreadable
            },
        }))
    }

    /// Reads about `max_bytes` from `start` on into `bytes`, up to the end of the file. Follows
    /// only the sizes of the records; the caller must check the records. None if the first record
    /// is longer than `max_bytes`.
    pub(super) fn read_range(
        &self,
        start: u64,
        max_bytes: usize,
        stop: Option<i64>,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<ByteRange>, StoreError> {
        let next_file = self.log.next_file_start(start);
        let room = usize::try_from(next_file - start).unwrap_or(usize::MAX);
        bytes.resize(room.min(max_bytes.clamp(BLANK_BYTES, WHOLE_BYTES_MAX)), 0);
        let stop = stop.map_or(u64::MAX, |stop| stop.max(0).cast_unsigned());
        let (mut read, mut used, mut ended) = (0, 0, Ended::More);
        let mut next = start;
        while let Some(head) = self.head(start, used, &mut read, bytes)? {
            if next >= stop {
                ended = Ended::Stop;
                break;
            }
            match head {
                Head::Blank => {
                    next = next_file;
                    break;
                }
                Head::Record(size) if size <= read - used => {
                    used += size;
                    next += size as u64;
                }
                // The rest of this record is in the next chunk.
                Head::Record(_) if used > 0 => break,
                Head::Record(_) => return Ok(None),
                Head::Neither => {
                    ended = Ended::Unreadable;
                    break;
                }
            }
        }
        if next == start && ended == Ended::More {
            return Ok(None);
        }
        Ok(Some(ByteRange {
            bytes: used,
            next_offset: next.cast_signed(),
            ended,
        }))
    }

    /// Parses the head at `start + used`. Reads more bytes until its record is complete or `bytes`
    /// is full. `bytes` has its final length, `read` bytes of it are filled; it is truncated at the
    /// end of the file. None if too few bytes are left for a head.
    #[inline]
    fn head(
        &self,
        start: u64,
        used: usize,
        read: &mut usize,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<Head>, StoreError> {
        loop {
            let head = Head::parse(&bytes[used..*read]);
            let is_short = *read - used < BLANK_BYTES;
            let is_cut = matches!(head, Head::Record(size) if size > *read - used);
            if *read == bytes.len() || !(is_short || is_cut) {
                return Ok((!is_short).then_some(head));
            }
            let end = bytes.len().min(*read + PIECE_BYTES);
            let at = start + *read as u64;
            let more = self.log.read_at(at, &mut bytes[*read..end]);
            *read += more.map_err(log_error(at.cast_signed()))?;
            if *read < end {
                bytes.truncate(*read);
            }
        }
    }

    /// `offset`, or the start of a later file if all records before that file are too old.
    fn skip_files(&self, offset: u64, filter: &Filter<'_>) -> Result<u64, StoreError> {
        let Some(begin) = filter.begin_ms else {
            return Ok(offset);
        };
        let oldest = begin.saturating_sub(CLOCK_MARGIN_MS);
        let files = self.log.files()?;
        let is_too_old = |start| first_time(&self.log, start).is_some_and(|time| time < oldest);
        let later = files.partition_point(|file| file.offset <= offset || is_too_old(file.offset));
        // The last file with a too old first record may still hold younger ones.
        let at = later.checked_sub(1).and_then(|at| files.get(at));
        Ok(at.map_or(offset, |file| file.offset.max(offset)))
    }

    /// The next record after `offset`, at which no record starts; None if the log ends there.
    ///
    /// As in recovery, a record counts only if it is younger than the records before it. So if
    /// there is a candidate, the scan starts again at the file that holds `offset`.
    pub fn next_record_after(&self, offset: i64) -> Result<Option<i64>, StoreError> {
        let offset = offset.max(0).cast_unsigned();
        let limit = self.log.max_offset();
        if offset >= limit {
            return Ok(None);
        }
        // Most calls ask at the end of the log. There this search finds nothing and is enough.
        let mut nothing_seen = LastSeen::default();
        nothing_seen.store_timestamp_ms = i64::MIN;
        let Some(first) = next_record(&self.log, offset, limit, &nothing_seen)? else {
            return Ok(None);
        };
        let mut last_seen = LastSeen::default();
        let mut scanner = LogScanner::from(self.log.file_start(offset).max(self.log.min_offset()));
        while scanner.offset() < offset {
            let at = scanner.offset();
            let is_good = match scanner
                .step(&self.log, offset)
                .map_err(log_error(at.cast_signed()))?
            {
                Step::Record(bytes) => match good_record(at, bytes) {
                    Some(record) => {
                        last_seen.note(&record);
                        true
                    }
                    None => false,
                },
                Step::Blank => true,
                Step::Invalid | Step::End => false,
            };
            if !is_good {
                match next_record(&self.log, at, offset, &last_seen)? {
                    Some(next) => scanner = LogScanner::from(next),
                    None => break,
                }
            }
        }
        let next = next_record(&self.log, first - 1, limit, &last_seen)?;
        Ok(next.map(u64::cast_signed))
    }

    /// Start of each log file, and the store time of its first record if it has one.
    pub fn file_starts(&self) -> Result<Vec<(i64, Option<i64>)>, StoreError> {
        let files = self.log.files()?;
        let row = |start: u64| (start.cast_signed(), first_time(&self.log, start));
        Ok(files.iter().map(|file| row(file.offset)).collect())
    }
}

fn record_at(offset: i64, bytes: &[u8], check: CheckCrc) -> Option<RecordView<'_>> {
    let record = RecordView::parse(bytes, check).ok()?;
    (record.physical_offset == offset).then_some(record)
}

/// Store time of the first record of a file.
fn first_time(log: &LogDirectory, start: u64) -> Option<i64> {
    let bytes = log.record(start.cast_signed(), None, CheckCrc::No).ok()??;
    let record = RecordView::parse(&bytes, CheckCrc::No).ok()?;
    Some(record.store_timestamp_ms)
}
