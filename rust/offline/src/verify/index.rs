//! Checks index files: chains, entries against their records, and keys without an entry.

use std::io;
use std::path::Path;

use super::Check;
use crate::scan::Scan;
use mq_format::index::{IndexEntry, IndexHeader, has_key_hash, indexed_keys};
use mq_format::message::{BLANK_BYTES, CheckCrc, RecordView, sys_flag};
use mq_log::{Access, fs};
use mq_store::StoreError;
use mq_store::inspect::IndexFile;
use mq_store::inspect::index_paths;
use mq_store::inspect::io_error;
use mq_store::inspect::scan::{LogRead, is_stand_in};
use mq_store::inspect::{Geometry, SetSizes, any_layout, geometry};

/// Entries read at once.
const ENTRIES_AT_ONCE: i32 = 4_096;

/// The target of an index entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// A record with that key.
    Own,
    /// The position of a record that was lost to damage and overwritten by a repair.
    Repaired,
    /// None of these.
    Wrong,
}

/// An index file under check.
#[derive(Clone, Copy)]
struct Work<'a> {
    place: &'a str,
    file: &'a IndexFile,
    header: IndexHeader,
    /// End timestamp in the header of the previous file.
    before_ms: Option<i64>,
    log_end: u64,
}

impl Work<'_> {
    /// The time difference that the first entry of a file holds: the begin timestamp of a new file
    /// is the end timestamp of the previous one.
    fn first_seconds(&self, stored_ms: i64) -> i32 {
        let begin_timestamp_ms = self.before_ms.unwrap_or(0);
        let header = IndexHeader {
            begin_timestamp_ms,
            ..self.header
        };
        header.time_difference_seconds(stored_ms)
    }
}

/// Checks the links of an entry; `head` is the newest entry of its slot so far.
fn link_fault(entry: &IndexEntry, at: i32, head: i32, last: Option<IndexEntry>) -> Option<String> {
    let before = last.map_or(0, |last| last.physical_offset);
    if entry.key_hash < 0 || entry.time_difference_seconds < 0 {
        return Some(format!("entry {at} has a negative hash or time"));
    }
    if entry.previous != head {
        let stated = entry.previous;
        return Some(format!(
            "entry {at} links to entry {stated} of its chain, expected entry {head}"
        ));
    }
    (entry.physical_offset < before)
        .then(|| format!("entry {at} points to an earlier record than the entry before it"))
}

/// Counts the keys of records, for comparison with the index entries.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// First and last indexed record; None if the index has no entry.
    indexed: Option<(i64, i64)>,
    /// The store was not closed, so the last record may lack entries.
    is_torn: bool,
    /// Keys of records from the first to the last indexed one.
    between: u64,
    /// Keys of records before the first indexed one.
    before: u64,
    /// Keys of records after the last indexed one, and the first such record.
    after: u64,
    first_behind: i64,
}

impl Keys {
    pub(super) fn of(scan: &Scan, is_torn: bool) -> Self {
        let files = scan.index_files().unwrap_or_default();
        let used = |header: &&IndexHeader| header.index_count > 1;
        let first = files.iter().map(|(_, header)| header).find(used);
        let last = files.iter().map(|(_, header)| header).rev().find(used);
        let range = first.zip(last);
        Self {
            indexed: range.map(|(a, b)| (a.begin_physical_offset, b.end_physical_offset)),
            is_torn,
            ..Self::default()
        }
    }

    /// Counts the keys of a record.
    pub(super) fn note(&mut self, record: &RecordView<'_>) {
        if record.sys_flag & sys_flag::TRANSACTION_MASK == sys_flag::ROLLBACK {
            return;
        }
        let count = indexed_keys(record.properties).count() as u64;
        let at = record.physical_offset;
        match self.indexed {
            Some((_, last)) if at == last && self.is_torn => {}
            Some((first, last)) if at >= first && at <= last => self.between += count,
            Some((first, _)) if at < first => self.before += count,
            _ if count > 0 => {
                if self.after == 0 {
                    self.first_behind = at;
                }
                self.after += count;
            }
            _ => {}
        }
    }
}

impl Check<'_> {
    pub(super) fn index(&mut self, log_end: u64) -> Result<(), StoreError> {
        let paths = index_paths(&self.scan.root)?;
        let sizes = geometry(&paths, SetSizes::default())?;
        let (mut indexed, mut before_ms) = (0, None);
        let last = paths.last().map_or(Path::new(""), |(_, path)| path);
        for (name, path) in &paths {
            let place = format!("index/{name}");
            let Some(layout) = self.scan.index_layout() else {
                self.unknown_layout(&sizes, place, path)?;
                continue;
            };
            match IndexFile::open(path, layout, Access::Read) {
                Ok(file) => {
                    let work = Work {
                        place: &place,
                        file: &file,
                        header: file.header().map_err(io_error(path))?,
                        before_ms,
                        log_end,
                    };
                    before_ms = Some(work.header.end_timestamp_ms);
                    if work.header.index_count <= 1 && path != last {
                        let what = "counts no entry, but it is not the last file".to_owned();
                        self.find("index_header", &place, -1, what);
                    }
                    match self.index_file(&work).map_err(io_error(path))? {
                        Some(entries) => indexed += entries,
                        None => return Ok(()),
                    }
                }
                Err(error) => self.find("file", place, -1, error.to_string()),
            }
        }
        // Without a layout no entry was read, so keys cannot be compared.
        let has_read = self.scan.index_layout().is_some() || sizes == Geometry::Unwritten;
        if has_read {
            self.missing_keys(indexed, paths.is_empty());
        }
        Ok(())
    }

    /// Reports a file whose numbers of slots and entries are unknown because its entries are
    /// damaged. A file that was never used is fine.
    fn unknown_layout(
        &mut self,
        sizes: &Geometry,
        place: String,
        path: &Path,
    ) -> Result<(), StoreError> {
        let bytes = fs::metadata(path).map_err(io_error(path))?.len();
        let what = match sizes {
            Geometry::Unwritten if any_layout(bytes).is_some() => return Ok(()),
            Geometry::Unwritten => format!("no index file has {bytes} bytes"),
            _ => "its entries match no maxHashSlotNum and maxIndexNum".to_owned(),
        };
        self.find("index_layout", place, -1, what);
        Ok(())
    }

    /// Checks every entry of a file. Returns the number of entries that point into the log, or None
    /// if the caller stopped the check.
    fn index_file(&mut self, work: &Work<'_>) -> io::Result<Option<u64>> {
        let Work { place, header, .. } = *work;
        let layout = work.file.layout();
        let end = header.index_count.min(layout.entries.cast_signed());
        if end != header.index_count || header.index_count < 0 {
            let what = format!(
                "counts {} entries, the file holds {end}",
                header.index_count
            );
            self.find("index_header", place, -1, what);
        }
        let mut heads = vec![0; layout.slots as usize];
        let (mut at, mut in_log, mut last) = (1, 0, None);
        let mut repaired = 0_u64;
        while at < end {
            let count = ENTRIES_AT_ONCE.min(end - at);
            for entry in work.file.entries(at, count)? {
                let offset = entry.physical_offset;
                if self.step(offset).is_err() {
                    return Ok(None);
                }
                self.report.index_entries += 1;
                let head = usize::try_from(layout.slot_of(entry.key_hash)).unwrap_or(0);
                if let Some(what) = link_fault(&entry, at, heads[head], last) {
                    self.find("index_entry", place, offset, what);
                }
                heads[head] = at;
                // Entries of expired records stay in the index.
                if offset >= self.scan.min_physical_offset() {
                    let (found, what) = self.check_entry(&entry, at, work);
                    in_log += u64::from(found != Entry::Repaired);
                    repaired += u64::from(found == Entry::Repaired);
                    if let Some(what) = what {
                        self.find("index_entry", place, offset, what);
                    }
                }
                last = Some(entry);
                at += 1;
            }
        }
        if repaired > 0 {
            let what = format!("{repaired} entries are keys of records that were lost to damage");
            self.notice("index_repaired", place, -1, what);
        }
        self.index_frame(work, (last, &heads))?;
        Ok(Some(in_log))
    }

    /// Compares header and slots with the entries: first and last record, and the newest entry of
    /// each slot.
    fn index_frame(
        &mut self,
        work: &Work<'_>,
        (last, heads): (Option<IndexEntry>, &[i32]),
    ) -> io::Result<()> {
        let Work {
            place,
            file,
            header,
            ..
        } = *work;
        // A broker may be between the writes of entry, slot and header.
        let Some(last) = last.filter(|_| !self.state.is_locked) else {
            let begin = (header.begin_physical_offset, header.begin_timestamp_ms);
            let end = (header.end_physical_offset, header.end_timestamp_ms);
            if begin != end && !self.state.is_locked {
                let what = "counts no entry, but its first and last record differ".to_owned();
                self.find("index_header", place, -1, what);
            }
            return Ok(());
        };
        for what in self.header_of(&header, file.entry(1)?, last, heads) {
            self.find("index_header", place, -1, what);
        }
        let count = header.index_count;
        let slots = file.raw_slots()?;
        let stored = slots
            .as_chunks()
            .0
            .iter()
            .map(|slot| i32::from_be_bytes(*slot));
        // After a crash, slots may refer to entries that the header does not count yet.
        let is_right = |(stored, head): (i32, &i32)| {
            stored == *head || (!self.state.is_clean && stored >= count)
        };
        if !stored.zip(heads).all(is_right) {
            let what = "a slot does not refer to the newest entry of its chain".to_owned();
            self.find("index_slot", place, -1, what);
        }
        Ok(())
    }

    /// The faults of a header.
    fn header_of(
        &self,
        header: &IndexHeader,
        first: IndexEntry,
        last: IndexEntry,
        heads: &[i32],
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        let used = heads.iter().filter(|head| **head != 0).count() as i64;
        let stated = i64::from(header.hash_slot_count);
        // Older RocketMQ versions count entries instead of slots.
        if self.state.is_clean && stated != used && stated != i64::from(header.index_count) - 1 {
            wrong.push(format!("counts {stated} used slots, found {used}"));
        }
        let ends = [
            (
                "first",
                header.begin_physical_offset,
                header.begin_timestamp_ms,
                first,
            ),
            (
                "last",
                header.end_physical_offset,
                header.end_timestamp_ms,
                last,
            ),
        ];
        for (word, offset, time_ms, entry) in ends {
            let is_at = entry.physical_offset;
            if offset != is_at {
                let what = format!(
                    "says its {word} record is at {offset}, the {word} entry points to {is_at}"
                );
                wrong.push(what);
                continue;
            }
            let Ok(Some(bytes)) = self.scan.log.record(offset, None, CheckCrc::No) else {
                continue;
            };
            let stored = RecordView::parse(&bytes, CheckCrc::No);
            let stored = stored.ok().filter(|record| !is_stand_in(record));
            if let Some(stored) = stored.filter(|record| record.store_timestamp_ms != time_ms) {
                let stored = stored.store_timestamp_ms;
                wrong.push(format!(
                    "says its {word} record was stored at {time_ms} ms, the record says {stored} ms"
                ));
            }
        }
        wrong
    }

    /// The target of an entry, and the entry's fault if it has one.
    fn check_entry(
        &self,
        entry: &IndexEntry,
        number: i32,
        work: &Work<'_>,
    ) -> (Entry, Option<String>) {
        let offset = entry.physical_offset;
        let wrong = || {
            Some(format!(
                "entry {number} is no key of the record at {offset}"
            ))
        };
        if offset >= work.log_end.cast_signed() {
            return (Entry::Wrong, wrong());
        }
        let record = self.scan.log.record(offset, None, CheckCrc::No);
        let Ok(Some(bytes)) = record else {
            let mut head = [0; BLANK_BYTES];
            let read = self.scan.log.read_at(offset.cast_unsigned(), &mut head);
            // A record that replaces several lost ones is zeros inside.
            let is_inside = read.is_ok_and(|read| read == head.len()) && head == [0; BLANK_BYTES];
            return if is_inside {
                (Entry::Repaired, None)
            } else {
                (Entry::Wrong, wrong())
            };
        };
        let Ok(record) = RecordView::parse(&bytes, CheckCrc::No) else {
            return (Entry::Wrong, wrong());
        };
        if is_stand_in(&record) {
            return (Entry::Repaired, None);
        }
        if !has_key_hash(record.topic, record.properties, entry.key_hash) {
            return (Entry::Wrong, wrong());
        }
        let (stated, stored) = (entry.time_difference_seconds, record.store_timestamp_ms);
        let is_time = work.header.time_difference_seconds(stored) == stated
            || number == 1 && work.first_seconds(stored) == stated;
        let late =
            || format!("entry {number} says {stated} s, its record was stored at {stored} ms");
        (Entry::Own, (!is_time).then(late))
    }

    /// Reports keys of records that no look-up will find.
    fn missing_keys(&mut self, indexed: u64, is_without: bool) {
        let Keys {
            between,
            before,
            after,
            first_behind,
            ..
        } = self.keys;
        if before > 0 {
            let what = format!("{before} keys of records before the first entry are not indexed");
            self.notice("index_missing", "index", -1, what);
        }
        if indexed < between {
            let what = format!("{between} keys of records have {indexed} entries");
            self.find("index_missing", "index", -1, what);
        }
        if after == 0 {
            return;
        }
        if is_without {
            let what = format!("there is no index: {after} keys cannot be looked up");
            self.notice("index_missing", "index", first_behind, what);
        } else if self.state.is_clean {
            let what = format!("{after} keys of records from here on are not indexed");
            self.find("index_missing", "index", first_behind, what);
        } else {
            let what = format!("{after} keys of records from here on are not indexed yet");
            self.notice("index_behind", "index", first_behind, what);
        }
    }
}
