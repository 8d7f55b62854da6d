//! One index file and its name. The dispatcher appends through a memory map; all readers use
//! `pread`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::MmapMut;

use crate::files::{io_error, write_error};
use crate::types::StoreError;
use mq_base::clock::local_time;
use mq_format::index::{
    ENTRY_BYTES, HEADER_BYTES, IndexEntry, IndexHeader, IndexLayout, SLOT_BYTES,
};
use mq_log::fs::{File, OpenOptions, open_own};
use mq_log::{Access, GuardedMmap, Operation, warm_map};

/// Step in which blocks for entries are allocated ahead, so that a store through the map cannot
/// fault on a full disk.
pub(crate) const ALLOCATE_BYTES: u64 = 1 << 20;

/// An index file, as readers use it.
#[derive(Debug)]
pub struct IndexFile {
    path: PathBuf,
    file: File,
    layout: IndexLayout,
    /// A look-up found damage.
    is_doubted: AtomicBool,
}

/// The key, time span and largest number of hits of a look-up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub key_hash: i32,
    pub begin_ms: i64,
    pub end_ms: i64,
    pub max_count: usize,
}

/// A key of a message, to be indexed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub hash: i32,
    pub physical_offset: i64,
    pub store_timestamp_ms: i64,
}

impl IndexFile {
    /// Opens a file with the store's layout.
    pub fn open(path: &Path, layout: IndexLayout, access: Access) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(access == Access::Append);
        let file = open_own(path, &mut options)?;
        let bytes = file.metadata()?.len();
        if bytes != layout.file_bytes() {
            let expected = layout.file_bytes();
            let what = format!("index file has {bytes} bytes, expected {expected}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(Self::of(path.to_owned(), file, layout))
    }

    /// Wraps an open file of that layout.
    pub(crate) fn of(path: PathBuf, file: File, layout: IndexLayout) -> Self {
        Self {
            path,
            file,
            layout,
            is_doubted: AtomicBool::new(false),
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the header from the file.
    pub fn header(&self) -> io::Result<IndexHeader> {
        let mut bytes = [0; HEADER_BYTES];
        self.file.read_exact_at(&mut bytes, 0)?;
        Ok(IndexHeader::decode(&bytes))
    }

    /// Numbers of slots and entries.
    pub fn layout(&self) -> IndexLayout {
        self.layout
    }

    /// The same file with another layout of the same length.
    pub(crate) fn with_layout(self, layout: IndexLayout) -> Self {
        Self { layout, ..self }
    }

    /// Whether the first and the last entry match the header, and the newest entry is in its slot.
    /// These few reads notice a file that was truncated or zeroed from some offset on.
    pub(crate) fn ends_match(&self) -> io::Result<bool> {
        let header = self.header()?;
        let count = header.index_count;
        if (0..=1).contains(&count) {
            return Ok(true);
        }
        if count < 0 || count.unsigned_abs() > self.layout.entries {
            return Ok(false);
        }
        let (zeroth, first, last) = (self.entry(0)?, self.entry(1)?, self.entry(count - 1)?);
        let newest = self.slot(self.layout.slot_of(last.key_hash))?;
        Ok(zeroth.encode() == [0; ENTRY_BYTES]
            && first.physical_offset == header.begin_physical_offset
            && first.previous == 0
            && last.key_hash >= 0
            && last.physical_offset == header.end_physical_offset
            // After a crash, entries may follow that the header does not count.
            && newest >= count - 1
            && newest.unsigned_abs() < self.layout.entries)
    }

    /// Position of the last non-zero byte in `[from, to)`.
    pub(crate) fn last_data(&self, from: u64, to: u64) -> io::Result<Option<u64>> {
        let is_hole = self.file.next_data(from)?.is_none_or(|data| data >= to);
        if is_hole {
            return Ok(None);
        }
        let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, from)?;
        let last = bytes.iter().rposition(|byte| *byte != 0);
        Ok(last.map(|at| from + at as u64))
    }

    /// Whether a file with this header is full.
    pub(crate) fn is_full(&self, header: &IndexHeader) -> bool {
        header.index_count.unsigned_abs() >= self.layout.entries
    }

    /// Syncs the file.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(io_error(&self.path))
    }

    pub(crate) fn slot(&self, slot: u32) -> io::Result<i32> {
        let mut bytes = [0; SLOT_BYTES];
        let position = self.layout.slot_position(slot);
        self.file.read_exact_at(&mut bytes, position)?;
        Ok(i32::from_be_bytes(bytes))
    }

    /// The entry with this number, counted from 0.
    pub fn entry(&self, index: i32) -> io::Result<IndexEntry> {
        let mut bytes = [0; ENTRY_BYTES];
        let position = self.layout.entry_position(index.unsigned_abs());
        self.file.read_exact_at(&mut bytes, position)?;
        Ok(IndexEntry::decode(&bytes))
    }

    /// `count` entries from `index` on.
    pub fn entries(&self, index: i32, count: i32) -> io::Result<Vec<IndexEntry>> {
        let bytes = self.raw_entries(index.unsigned_abs(), count.unsigned_abs() as usize)?;
        Ok(bytes.as_chunks().0.iter().map(IndexEntry::decode).collect())
    }

    /// The stored bytes of `count` entries from `index` on.
    pub fn raw_entries(&self, index: u32, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count * ENTRY_BYTES];
        let position = self.layout.entry_position(index);
        self.file.read_exact_at(&mut bytes, position)?;
        Ok(bytes)
    }

    /// The stored bytes of all slots.
    pub fn raw_slots(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.layout.slots as usize * SLOT_BYTES];
        let position = self.layout.slot_position(0);
        self.file.read_exact_at(&mut bytes, position)?;
        Ok(bytes)
    }

    /// Whether the file has exactly these slots.
    pub(crate) fn has_slots(&self, slots: &[i32]) -> io::Result<bool> {
        let mut bytes = vec![0; slots.len() * SLOT_BYTES];
        self.file
            .read_exact_at(&mut bytes, self.layout.slot_position(0))?;
        let stored = bytes
            .as_chunks()
            .0
            .iter()
            .map(|slot| i32::from_be_bytes(*slot));
        Ok(stored.eq(slots.iter().copied()))
    }

    /// Replaces header and slots, and syncs the file.
    pub(crate) fn rewrite(&self, header: &IndexHeader, slots: &[i32]) -> io::Result<()> {
        let bytes: Vec<u8> = slots.iter().flat_map(|slot| slot.to_be_bytes()).collect();
        self.file
            .write_all_at(&bytes, self.layout.slot_position(0))?;
        self.file.write_all_at(&header.encode(), 0)?;
        self.file.sync_data()
    }

    /// Whether a look-up found damage in this file.
    pub(super) fn is_doubted(&self) -> bool {
        self.is_doubted.load(Ordering::Relaxed)
    }

    /// Clears the mark that a look-up left.
    pub(super) fn believe(&self) {
        self.is_doubted.store(false, Ordering::Relaxed);
    }

    #[cold]
    fn doubt(&self) {
        if !self.is_doubted.swap(true, Ordering::Relaxed) {
            let path = self.path.display();
            tracing::warn!(%path, "found damage in an index file during a look-up");
        }
    }

    /// Whether a slot reads zero because its page was lost. In a file with this many entries, each
    /// page of slots almost certainly has a slot in use.
    fn is_lost_page(&self, slot: u32, header: &IndexHeader) -> io::Result<bool> {
        let position = self.layout.slot_position(slot);
        let page = position - position % PAGE_BYTES;
        let from = page.max(self.layout.slot_position(0));
        let to = (page + PAGE_BYTES).min(self.layout.slot_position(self.layout.slots));
        let slots = (to - from) / SLOT_BYTES as u64;
        let entries = u64::from(header.index_count.unsigned_abs());
        let of_page = entries * slots / u64::from(self.layout.slots);
        if of_page < ENTRIES_OF_PAGE_MIN {
            return Ok(false);
        }
        let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, from)?;
        Ok(bytes.iter().all(|byte| *byte == 0))
    }

    /// Whether an entry that the header counts cannot belong to the chain of a slot.
    fn is_foreign(&self, entry: &IndexEntry, slot: u32, header: &IndexHeader) -> bool {
        let of_file = header.begin_physical_offset..=header.end_physical_offset;
        entry.key_hash < 0
            || entry.time_difference_seconds < 0
            || self.layout.slot_of(entry.key_hash) != slot
            || !of_file.contains(&entry.physical_offset)
    }

    /// Adds to `hits` the physical offsets of entries with the wanted hash, newest first.
    pub(crate) fn look_up(&self, wanted: &Wanted, hits: &mut Vec<i64>) -> io::Result<()> {
        let header = self.header()?;
        let count = header.index_count;
        let slot = self.layout.slot_of(wanted.key_hash);
        let mut index = self.slot(slot)?;
        if index < 0 || (index == 0 && self.is_lost_page(slot, &header)?) {
            self.doubt();
        }
        if count <= 1 || index <= 0 || index.unsigned_abs() >= self.layout.entries {
            return Ok(());
        }
        while hits.len() < wanted.max_count {
            let entry = self.entry(index)?;
            if index < count && self.is_foreign(&entry, slot, &header) {
                self.doubt();
            }
            if entry.time_difference_seconds < 0 {
                break;
            }
            let time_ms = header.entry_timestamp_ms(entry.time_difference_seconds);
            let is_in_time = (wanted.begin_ms..=wanted.end_ms).contains(&time_ms);
            // Entries that the header does not count are no hits, but their links lead to older
            // entries.
            if entry.key_hash == wanted.key_hash && is_in_time && index < count {
                hits.push(entry.physical_offset);
            }
            // Links point to older entries. Any other link is damage and could loop.
            let is_linked = entry.previous > 0 && entry.previous < index;
            if !is_linked || time_ms < wanted.begin_ms {
                break;
            }
            index = entry.previous;
        }
        Ok(())
    }
}

/// The file to which entries are added.
#[derive(Debug)]
pub(crate) struct ActiveIndexFile {
    file: Arc<IndexFile>,
    map: GuardedMmap<MmapMut>,
    header: IndexHeader,
    /// Bytes from the start of the file that have blocks.
    allocated: u64,
}

impl ActiveIndexFile {
    /// Opens a file for writing.
    pub(crate) fn new(file: Arc<IndexFile>) -> io::Result<Self> {
        let mut header = file.header()?;
        // RocketMQ's count starts at 1 in memory and at 0 in a fresh file.
        header.index_count = header.index_count.max(1);
        // SAFETY: the file keeps its length while it is open, because the store's lock excludes
        // other writers, and no other reference into a map of this file exists.
        let map = unsafe { MmapMut::map_mut(&file.file)? };
        let mut active = Self {
            file,
            map: map.into(),
            header,
            allocated: 0,
        };
        active.allocate(active.entry_end(header.index_count))?;
        Ok(active)
    }

    pub(crate) fn file(&self) -> &Arc<IndexFile> {
        &self.file
    }

    pub(crate) fn header(&self) -> &IndexHeader {
        &self.header
    }

    /// Whether the next entry needs a new file.
    pub(crate) fn is_full(&self) -> bool {
        self.file.is_full(&self.header)
    }

    /// Adds as many entries as fit and returns their number; fails without adding any on a full
    /// disk. The order of the stores keeps chains valid for readers: entry, slot, header.
    pub(crate) fn add(&mut self, keys: &[Key]) -> Result<usize, StoreError> {
        let first = self.header.index_count.unsigned_abs();
        let room = self.file.layout.entries.saturating_sub(first);
        let keys = &keys[..keys.len().min(room as usize)];
        let end = first + u32::try_from(keys.len()).unwrap_or(u32::MAX);
        let allocated = self.allocate(self.file.layout.entry_position(end));
        allocated.map_err(write_error(self.file.path()))?;
        self.touch_slots(keys);
        let added = keys.iter().try_for_each(|key| self.add_one(key));
        let header = self.header.encode();
        let stored = added
            .and_then(|()| self.store(0, &header))
            .and_then(|()| self.map.check());
        stored.map_err(io_error(self.file.path()))?;
        Ok(keys.len())
    }

    /// Reads all slots first. They are far apart, and the CPU overlaps the cache misses of
    /// independent reads.
    fn touch_slots(&self, keys: &[Key]) {
        let heads = keys.iter().map(|key| self.map[self.slot_place(key)]);
        std::hint::black_box(heads.fold(0, |all, head| all ^ head));
    }

    fn slot_place(&self, key: &Key) -> usize {
        let slot = self.file.layout.slot_of(key.hash);
        usize::try_from(self.file.layout.slot_position(slot)).unwrap_or(usize::MAX)
    }

    fn add_one(&mut self, key: &Key) -> io::Result<()> {
        let index = self.header.index_count;
        let slot_place = self.slot_place(key);
        let previous = self.chain_head(slot_place);
        let entry = IndexEntry {
            key_hash: key.hash,
            physical_offset: key.physical_offset,
            time_difference_seconds: self.header.time_difference_seconds(key.store_timestamp_ms),
            previous,
        };
        let entry_position = self.file.layout.entry_position(index.unsigned_abs());
        self.store(entry_position, &entry.encode())?;
        self.store(slot_place as u64, &index.to_be_bytes())?;
        if index <= 1 {
            self.header.begin_physical_offset = key.physical_offset;
            self.header.begin_timestamp_ms = key.store_timestamp_ms;
        }
        if previous == 0 {
            self.header.hash_slot_count += 1;
        }
        self.header.index_count += 1;
        self.header.end_physical_offset = key.physical_offset;
        self.header.end_timestamp_ms = key.store_timestamp_ms;
        Ok(())
    }

    /// The newest entry in a slot's chain; 0 for none.
    fn chain_head(&self, slot_place: usize) -> i32 {
        let mut bytes = [0; SLOT_BYTES];
        bytes.copy_from_slice(&self.map[slot_place..slot_place + SLOT_BYTES]);
        let head = i32::from_be_bytes(bytes);
        // An entry beyond the count is left over from a crash before its header was written.
        if head < 0 || head >= self.header.index_count {
            return 0;
        }
        head
    }

    fn entry_end(&self, index: i32) -> u64 {
        self.file.layout.entry_position(index.unsigned_abs() + 1)
    }

    fn store(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        let at = usize::try_from(position).unwrap_or(usize::MAX);
        let target = &mut self.map[at..at + bytes.len()];
        self.file
            .file
            .doing(&Operation::Write(position, &[bytes]), || {
                target.copy_from_slice(bytes);
                Ok(())
            })
    }

    /// Makes sure that everything before `end` has blocks, and that free entries have pages.
    fn allocate(&mut self, end: u64) -> io::Result<()> {
        if end <= self.allocated {
            return Ok(());
        }
        let layout = self.file.layout;
        let to = (end + ALLOCATE_BYTES).min(layout.file_bytes());
        // On a file system without fallocate, a store on a full disk faults; there is no better
        // way.
        self.file.file.allocate(0, to)?;
        let free = layout.entry_position(self.header.index_count.unsigned_abs());
        let from = free.max(self.allocated).min(to);
        let advise = |advice, start, count| self.map.advise_range(advice, start, count);
        warm_map(&self.file.file, advise, from, to)?;
        self.allocated = to;
        Ok(())
    }
}

/// Bytes that a disk loses together.
const PAGE_BYTES: u64 = 4_096;
/// With this many entries per page of slots, a page without any occurs once in 10^17 pages.
const ENTRIES_OF_PAGE_MIN: u64 = 40;

const NAME_DIGITS: usize = 17;

/// The name of an index file: the local time of its creation, `yyyyMMddHHmmssSSS`. Names sort in
/// the order of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexName(u64);

impl IndexName {
    /// The name of a file created at `wall_ms`.
    pub(crate) fn at(wall_ms: i64) -> Self {
        let time = local_time(wall_ms);
        let parts = [
            (time.tm_year + 1900, 10_000),
            (time.tm_mon + 1, 100),
            (time.tm_mday, 100),
            (time.tm_hour, 100),
            (time.tm_min, 100),
            (time.tm_sec, 100),
        ];
        let stamp = parts.iter().fold(0, |stamp, (part, base)| {
            stamp * base + u64::from(part.unsigned_abs())
        });
        Self(stamp * 1000 + wall_ms.rem_euclid(1000).unsigned_abs())
    }

    /// This name, or the next one after `last` if the clock stepped back.
    pub(crate) fn after(self, last: Option<Self>) -> Self {
        last.map_or(self, |last| self.max(Self(last.0 + 1)))
    }

    /// Parses a name; None if it is not an index file's name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let is_stamp = name.len() == NAME_DIGITS && name.bytes().all(|byte| byte.is_ascii_digit());
        name.parse().ok().filter(|_| is_stamp).map(Self)
    }

    /// The name of the file at `path`.
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        Self::parse(path.file_name()?.to_str()?)
    }
}

impl fmt::Display for IndexName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:0NAME_DIGITS$}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_seventeen_digits_and_increase() {
        let name = IndexName::at(1_795_246_270_490);
        let text = name.to_string();
        assert_eq!(text.len(), NAME_DIGITS);
        assert!(
            text.starts_with("202611") && text.ends_with("490"),
            "{text}"
        );
        assert_eq!(IndexName::parse(&text), Some(name));
        assert_eq!(name.after(Some(name)), IndexName(name.0 + 1));
        assert_eq!(name.after(None), name);
        assert_eq!(IndexName::parse("2026112107311049"), None);
        assert_eq!(IndexName::parse("2026112107311049x"), None);
    }
}
