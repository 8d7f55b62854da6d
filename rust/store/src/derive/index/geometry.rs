//! Finds out how many slots and entries index files have.
//!
//! The length of a file is one equation for these two numbers, so the content must give the second
//! one. A file holds nothing after its last entry, and the header has that entry's number. So the
//! last non-zero bytes show where the entries begin. Then the chains of all slots prove it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::file::IndexFile;
use super::file::IndexName;
use crate::files::io_error;
use crate::types::StoreError;
use mq_format::index::{ENTRY_BYTES, HEADER_BYTES, IndexEntry, IndexLayout, SLOT_BYTES};
use mq_log::Access;

/// A file up to this size is read completely, bytes. Of a larger one, samples suffice if they
/// agree.
const SMALL_BYTES: u64 = 16 << 20;
/// Entries that are read of a large file.
const SAMPLES: i32 = 64;
/// Most entries that a crash may leave after the ones that the header counts.
const UNCOUNTED_MAX: i32 = 4_096;
/// Entries read at once.
const CHUNK_ENTRIES: i32 = 4_096;
/// Bytes read at once in the search for the last non-zero byte.
const SEARCH_BYTES: u64 = 1 << 20;
const WORDS_PER_ENTRY: u64 = (ENTRY_BYTES / SLOT_BYTES) as u64;
const WORD: u64 = SLOT_BYTES as u64;

/// `maxHashSlotNum` and `maxIndexNum`; None if not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetSizes {
    /// Hash slots of a file.
    pub slots: Option<u32>,
    /// Entries of a file.
    pub entries: Option<u32>,
}

/// The sizes of a store's index files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Geometry {
    /// The sizes according to the files; the settings agree or are not set.
    Known(IndexLayout),
    /// The sizes according to the settings; the files are damaged and give none.
    Set(IndexLayout),
    /// A file has other sizes than the settings.
    Contradicted(PathBuf, IndexLayout),
    /// No file has an entry yet.
    Unwritten,
    /// The first file whose entries match no sizes.
    Unknown(PathBuf),
}

/// The sizes of these files. A file with another length than most is damaged.
pub fn geometry(paths: &[(IndexName, PathBuf)], set: SetSizes) -> Result<Geometry, StoreError> {
    let Some(bytes) = usual_bytes(paths)? else {
        return Ok(Geometry::Unwritten);
    };
    let known = (set != SetSizes::default()).then_some(set);
    let wanted = known.and_then(|set| IndexLayout::of_file(bytes, set.slots, set.entries));
    let (mut contradicted, mut unknown) = (None, None);
    for (_, path) in paths {
        let found = look(path, bytes, wanted).map_err(io_error(path))?;
        match found {
            Look::Fits(layout) if known.is_none() || wanted == Some(layout) => {
                return Ok(Geometry::Known(layout));
            }
            Look::Fits(layout) => {
                contradicted.get_or_insert((path.clone(), layout));
            }
            Look::FitsNothing => {
                unknown.get_or_insert_with(|| path.clone());
            }
            Look::Unwritten => {}
        }
    }
    let whole = |set: SetSizes| {
        let (slots, entries) = (set.slots?, set.entries?);
        Some(IndexLayout { slots, entries })
    };
    Ok(match (contradicted, unknown, wanted.or(whole(set))) {
        (Some((path, layout)), ..) => Geometry::Contradicted(path, layout),
        (None, _, Some(set)) => Geometry::Set(set),
        (None, Some(path), None) => Geometry::Unknown(path),
        (None, None, None) => Geometry::Unwritten,
    })
}

/// The sizes according to one file.
enum Look {
    Fits(IndexLayout),
    FitsNothing,
    Unwritten,
}

fn look(path: &Path, bytes: u64, wanted: Option<IndexLayout>) -> io::Result<Look> {
    let Some(any) = any_layout(bytes) else {
        return Ok(Look::FitsNothing);
    };
    // The layout does not matter yet. A file of another length is left out.
    let file = match IndexFile::open(path, any, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(Look::Unwritten),
        file => file?,
    };
    let count = file.header()?.index_count;
    if (0..=1).contains(&count) {
        return Ok(Look::Unwritten);
    }
    let probe = Probe { file, bytes, count };
    Ok(probe.layout(wanted)?.map_or(Look::FitsNothing, Look::Fits))
}

/// A layout with this file length; None if no index file can have it.
pub fn any_layout(bytes: u64) -> Option<IndexLayout> {
    let words = bytes.checked_sub(HEADER_BYTES as u64)? / WORD;
    let rest = u32::try_from(words % WORDS_PER_ENTRY).ok()?;
    let slots = if rest == 0 {
        WORDS_PER_ENTRY.try_into().ok()?
    } else {
        rest
    };
    IndexLayout::of_file(bytes, Some(slots), None)
}

/// The length that most files have; of two equally frequent ones, the larger.
pub(crate) fn usual_bytes(paths: &[(IndexName, PathBuf)]) -> Result<Option<u64>, StoreError> {
    let mut counts = BTreeMap::new();
    for (_, path) in paths {
        let metadata = mq_log::fs::metadata(path).map_err(io_error(path))?;
        if any_layout(metadata.len()).is_some() {
            *counts.entry(metadata.len()).or_insert(0_usize) += 1;
        }
    }
    let usual = counts.into_iter().max_by_key(|(_, count)| *count);
    Ok(usual.map(|(bytes, _)| bytes))
}

/// A file with entries whose layout is searched.
struct Probe {
    file: IndexFile,
    bytes: u64,
    /// Number of the next entry.
    count: i32,
}

impl Probe {
    /// The layout that matches the content. Tries `wanted` first, then RocketMQ's ratio.
    fn layout(self, wanted: Option<IndexLayout>) -> io::Result<Option<IndexLayout>> {
        let usual = IndexLayout::of_file(self.bytes, None, None);
        let first: Vec<_> = wanted.into_iter().chain(usual).collect();
        let Self { file, bytes, count } = self;
        let mut file = file;
        if bytes > SMALL_BYTES {
            for layout in &first {
                file = file.with_layout(*layout);
                if has_room(layout, count) && file.ends_match()? && samples_fit(&file, count)? {
                    return Ok(Some(*layout));
                }
            }
        }
        let Some(last_word) = last_word(&file, bytes)? else {
            return Ok(None);
        };
        // If nothing follows the last entry, only one layout is possible.
        if let Some(layout) = ending_at(last_word, bytes, count - 1) {
            file = file.with_layout(layout);
            if file.ends_match()? && replays(&file, count)? {
                return Ok(Some(layout));
            }
        }
        let torn = (count..count.saturating_add(UNCOUNTED_MAX))
            .filter_map(|last| ending_at(last_word, bytes, last));
        let mut found: Option<IndexLayout> = None;
        for layout in first.into_iter().chain(torn) {
            file = file.with_layout(layout);
            let fits = has_room(&layout, count) && file.ends_match()? && replays(&file, count)?;
            if fits && found.is_some_and(|found| found != layout) {
                return Ok(None);
            }
            found = if fits { Some(layout) } else { found };
        }
        Ok(found)
    }
}

fn has_room(layout: &IndexLayout, count: i32) -> bool {
    layout.entries >= count.unsigned_abs()
}

/// The layout in which `word`, counted after the header, belongs to the entry `last`.
fn ending_at(word: u64, bytes: u64, last: i32) -> Option<IndexLayout> {
    let words = (bytes - HEADER_BYTES as u64) / WORD;
    let in_entry = (word + WORDS_PER_ENTRY - words % WORDS_PER_ENTRY) % WORDS_PER_ENTRY;
    let before = WORDS_PER_ENTRY * u64::from(last.unsigned_abs()) + in_entry;
    let slots = u32::try_from(word.checked_sub(before)?).ok()?;
    IndexLayout::of_file(bytes, Some(slots), None)
}

/// Number of the last non-zero four-byte word after the header.
fn last_word(file: &IndexFile, bytes: u64) -> io::Result<Option<u64>> {
    let header = HEADER_BYTES as u64;
    let mut end = bytes;
    while end > header {
        let from = end.saturating_sub(SEARCH_BYTES).max(header);
        let found = file.last_data(from, end)?;
        if let Some(at) = found {
            return Ok(Some((at - header) / WORD));
        }
        end = from;
    }
    Ok(None)
}

/// Whether sampled entries are in the chains of their slots.
fn samples_fit(file: &IndexFile, count: i32) -> io::Result<bool> {
    let layout = file.layout();
    let step = (count / SAMPLES).max(1);
    for number in (1..count).step_by(usize::try_from(step).unwrap_or(1)) {
        let entry = file.entry(number)?;
        let slot = layout.slot_of(entry.key_hash);
        let is_linked = entry.previous == 0
            || (0..number).contains(&entry.previous)
                && layout.slot_of(file.entry(entry.previous)?.key_hash) == slot;
        if !is_sound(&entry) || !is_linked || file.slot(slot)? < number {
            return Ok(false);
        }
    }
    let first = file.entry(1)?;
    // Zeros would be in slot 0 of any layout, so they prove nothing.
    Ok(first.key_hash != 0 || first.physical_offset != 0)
}

fn is_sound(entry: &IndexEntry) -> bool {
    entry.key_hash >= 0 && entry.time_difference_seconds >= 0
}

/// Whether adding the entries before `count` one by one gives every stored link and slot.
fn replays(file: &IndexFile, count: i32) -> io::Result<bool> {
    let layout = file.layout();
    let mut heads = vec![0; layout.slots as usize];
    let (mut number, mut last_offset) = (1, i64::MIN);
    while number < count {
        let wanted = CHUNK_ENTRIES.min(count - number);
        for entry in file.entries(number, wanted)? {
            if !is_sound(&entry) || entry.physical_offset < last_offset {
                return Ok(false);
            }
            let head = &mut heads[layout.slot_of(entry.key_hash) as usize];
            if entry.previous != *head {
                return Ok(false);
            }
            *head = number;
            last_offset = entry.physical_offset;
            number += 1;
        }
    }
    let slots = file.raw_slots()?;
    for (slot, (stored, head)) in slots.as_chunks().0.iter().zip(&heads).enumerate() {
        let stored = i32::from_be_bytes(*stored);
        if stored != *head && !leads_to(file, slot, (stored, *head), count)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether uncounted entries lead from a slot to its newest counted entry.
fn leads_to(
    file: &IndexFile,
    slot: usize,
    (stored, head): (i32, i32),
    count: i32,
) -> io::Result<bool> {
    let layout = file.layout();
    let mut at = stored;
    while at >= count && at.unsigned_abs() < layout.entries {
        let entry = file.entry(at)?;
        let is_own = is_sound(&entry) && layout.slot_of(entry.key_hash) as usize == slot;
        if !is_own || entry.previous >= at {
            return Ok(false);
        }
        at = entry.previous;
    }
    Ok(at == head)
}
