//! Index files: chains, entries against the records they point to, and keys that have no entry.

use std::path::Path;

use super::Check;
use crate::format::index::{IndexHeader, key_hash};
use crate::format::message::{BLANK_BYTES, CheckCrc, RecordView, sys_flag};
use crate::format::properties;
use crate::log::Access;
use crate::store::files::io_error;
use crate::store::index::index_paths;
use crate::store::index_file::IndexFile;
use crate::store::recover::is_stand_in;
use crate::store::scan::Scan;
use crate::store::types::StoreError;
use crate::store::walk::LogRead;

/// Entries read at once.
const ENTRIES_AT_ONCE: i32 = 4_096;

/// What an index entry points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// A record with that key.
    Own,
    /// The place of a record that was lost and healed.
    Healed,
    /// Neither.
    Wrong,
}

/// Keys of records, counted against the entries there are.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// First and last record indexed; None without an entry.
    indexed: Option<(i64, i64)>,
    /// The last one may lack some, because the store was not closed.
    is_torn: bool,
    /// Keys of records between them.
    between: u64,
    /// Keys of records behind the last one, and the first such record.
    behind: u64,
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
        let count = keys_of(record, |_| {});
        let at = record.physical_offset;
        match self.indexed {
            Some((_, last)) if at == last && self.is_torn => {}
            Some((first, last)) if at >= first && at <= last => self.between += count,
            Some((first, _)) if at < first => {}
            _ if count > 0 => {
                if self.behind == 0 {
                    self.first_behind = at;
                }
                self.behind += count;
            }
            _ => {}
        }
    }
}

/// Calls `found` with each key that RocketMQ indexes; returns how many there are.
fn keys_of(record: &RecordView<'_>, mut found: impl FnMut(&str)) -> u64 {
    let unique = properties::get_str(record.properties, properties::UNIQ_KEY);
    let keys = properties::get_str(record.properties, properties::KEYS);
    let keys = keys.as_deref().unwrap_or_default().split(' ');
    let mut count = 0;
    for key in unique.as_deref().into_iter().chain(keys) {
        if !key.is_empty() {
            found(key);
            count += 1;
        }
    }
    count
}

impl Check<'_> {
    pub(super) fn index(&mut self, log_end: u64) -> Result<(), StoreError> {
        let paths = index_paths(&self.scan.root)?;
        let mut indexed = 0;
        for (name, path) in &paths {
            let place = format!("index/{name}");
            let layout = self.scan.index_layout();
            let file = layout.map(|layout| IndexFile::open(path, layout, Access::Read));
            match file {
                Some(Ok(file)) => match self.index_file(&place, path, &file, log_end)? {
                    Some(entries) => indexed += entries,
                    None => return Ok(()),
                },
                Some(Err(error)) => self.find("file", place, -1, error.to_string()),
                None => {
                    let what = "its length is of no slots and entries in RocketMQ's ratio";
                    self.notice("file", place, -1, what.into());
                }
            }
        }
        // Without a layout no entry was read.
        if self.scan.index_layout().is_some() || paths.is_empty() {
            self.missing_keys(indexed, paths.is_empty());
        }
        Ok(())
    }

    /// Every entry of a file; returns how many point into the log, None if told to stop.
    fn index_file(
        &mut self,
        place: &str,
        path: &Path,
        file: &IndexFile,
        log_end: u64,
    ) -> Result<Option<u64>, StoreError> {
        let header = file.header().map_err(io_error(path))?;
        let layout = file.layout();
        let end = header.index_count.min(layout.entries.cast_signed());
        if end != header.index_count {
            let what = format!("counts {}, there is room for {end}", header.index_count);
            self.find("index_header", place, -1, what);
        }
        let mut heads = vec![0; layout.slots as usize];
        let (mut at, mut in_log, mut last) = (1, 0, header.begin_physical_offset);
        let mut healed = 0_u64;
        while at < end {
            let count = ENTRIES_AT_ONCE.min(end - at);
            for entry in file.entries(at, count).map_err(io_error(path))? {
                let offset = entry.physical_offset;
                if self.step(offset).is_err() {
                    return Ok(None);
                }
                self.report.index_entries += 1;
                let slot = layout.slot_of(entry.key_hash) as usize;
                if entry.previous != heads[slot] {
                    let (told, head) = (entry.previous, heads[slot]);
                    let what = format!("entry {at} follows {told} in its chain, expected {head}");
                    self.find("index_entry", place, offset, what);
                }
                heads[slot] = at;
                // Records that expired leave their entries behind.
                if offset >= self.scan.min_physical_offset() {
                    let found = self.look_at(offset, entry.key_hash, log_end);
                    in_log += u64::from(found != Entry::Healed);
                    healed += u64::from(found == Entry::Healed);
                    if found == Entry::Wrong {
                        let what = format!("entry {at} is no key of the record at {offset}");
                        self.find("index_entry", place, offset, what);
                    }
                }
                last = offset;
                at += 1;
            }
        }
        if healed > 0 {
            let what = format!("{healed} entries are keys of records that were lost and healed");
            self.notice("index_healed", place, -1, what);
        }
        self.index_frame(place, file, &header, (last, &heads))
            .map_err(io_error(path))?;
        Ok(Some(in_log))
    }

    /// Header and slots against the entries: the last record, and the newest entry of each slot.
    fn index_frame(
        &mut self,
        place: &str,
        file: &IndexFile,
        header: &IndexHeader,
        (last, heads): (i64, &[i32]),
    ) -> std::io::Result<()> {
        // A broker writes entry, slot and header one after the other.
        if self.state.is_locked || header.index_count <= 1 {
            return Ok(());
        }
        if header.end_physical_offset != last {
            let told = header.end_physical_offset;
            let what = format!("says its last record is at {told}, the last entry's is at {last}");
            self.find("index_header", place, -1, what);
        }
        // After a crash slots may be of entries that the header does not count yet.
        if self.state.is_clean && !file.has_slots(heads)? {
            let what = "a slot is not the newest entry of its chain".to_owned();
            self.find("index_slot", place, -1, what);
        }
        Ok(())
    }

    /// What an entry points to.
    fn look_at(&self, offset: i64, hash: i32, log_end: u64) -> Entry {
        if offset >= log_end.cast_signed() {
            return Entry::Wrong;
        }
        let record = self.scan.log.record(offset, None, CheckCrc::No);
        let Ok(Some(bytes)) = record else {
            let mut head = [0; BLANK_BYTES];
            let read = self.scan.log.read_at(offset.cast_unsigned(), &mut head);
            // The inside of what stands in for several records is zeros.
            let is_inside = read.is_ok_and(|read| read == head.len()) && head == [0; BLANK_BYTES];
            return if is_inside {
                Entry::Healed
            } else {
                Entry::Wrong
            };
        };
        let Ok(record) = RecordView::parse(&bytes, CheckCrc::No) else {
            return Entry::Wrong;
        };
        if is_stand_in(&record) {
            return Entry::Healed;
        }
        let mut is_key = false;
        keys_of(&record, |key| is_key |= key_hash(record.topic, key) == hash);
        if is_key { Entry::Own } else { Entry::Wrong }
    }

    /// Keys of records that no look-up will find.
    fn missing_keys(&mut self, indexed: u64, is_without: bool) {
        let Keys {
            between,
            behind,
            first_behind,
            ..
        } = self.keys;
        if indexed < between {
            let what = format!("{between} keys of records have {indexed} entries");
            self.find("index_missing", "index", -1, what);
        }
        if behind == 0 {
            return;
        }
        if is_without {
            let what = format!("there is no index: none of {behind} keys can be looked up");
            self.notice("index_missing", "index", first_behind, what);
        } else if self.state.is_clean {
            let what = format!("{behind} keys of records from here on have no entry");
            self.find("index_missing", "index", first_behind, what);
        } else {
            let what = format!("{behind} keys of records from here on have no entry yet");
            self.notice("index_behind", "index", first_behind, what);
        }
    }
}
