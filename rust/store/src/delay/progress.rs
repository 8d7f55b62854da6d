//! Progress of the delay levels, saved in `config/delayOffset.json`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::types::StoreError;
use mq_statefile::{Aside, StateFiles, json};

/// Queue offsets by level.
type ByLevel = BTreeMap<i32, i64>;

const FILE_NAME: &str = "delayOffset.json";

/// The next queue offset of each level.
#[derive(Debug)]
pub(crate) struct DelayOffsets {
    /// By level, for the levels of the table and levels that only the file has. The latter stay in
    /// the file, as in RocketMQ, so a table that is shortened and restored delivers no message
    /// twice.
    next: RwLock<BTreeMap<i32, AtomicI64>>,
    /// Log offset after the last delivered message.
    delivered_end: AtomicI64,
    saving: Mutex<Saving>,
}

/// The file must not be ahead of the log. Otherwise, a message that was delivered and lost before
/// it was flushed would never be delivered again.
#[derive(Debug)]
struct Saving {
    /// The content of the file.
    saved: ByLevel,
    /// Offsets that may be saved when the log is flushed to the given end.
    noted: Option<(i64, ByLevel)>,
}

impl DelayOffsets {
    /// Loads the offsets of `levels` levels and of further levels in the file. `within(level,
    /// offset)` corrects each; `offset` is None if the file lacks the level.
    pub(crate) fn load(
        state: &StateFiles,
        levels: i32,
        within: impl Fn(i32, Option<i64>) -> i64,
    ) -> Result<Self, StoreError> {
        let table = read(state)?;
        let known = (1..=levels).chain(table.keys().copied());
        let of_file = |level| (level, within(level, table.get(&level).copied()));
        let next: ByLevel = known.map(of_file).collect();
        let atomic = |(level, offset): (&i32, &i64)| (*level, AtomicI64::new(*offset));
        let saving = Saving {
            saved: next.clone(),
            noted: None,
        };
        Ok(Self {
            next: RwLock::new(next.iter().map(atomic).collect()),
            delivered_end: AtomicI64::new(0),
            saving: Mutex::new(saving),
        })
    }

    /// Takes the offsets from the file again, as [`DelayOffsets::load`] does. Nobody delivers
    /// meanwhile.
    pub(crate) fn reload(
        &self,
        state: &StateFiles,
        levels: i32,
        within: impl Fn(i32, Option<i64>) -> i64,
    ) -> Result<(), StoreError> {
        let fresh = Self::load(state, levels, within)?;
        let mut saving = self.saving.lock();
        *self.next.write() = fresh.next.into_inner();
        *saving = fresh.saving.into_inner();
        Ok(())
    }

    /// The next offset of a level; None if neither the table nor the file has the level.
    pub(crate) fn next(&self, level: i32) -> Option<i64> {
        Some(self.next.read().get(&level)?.load(Ordering::Acquire))
    }

    /// Notes that all messages of a level before `offset` are delivered; the last one ends at
    /// `log_end`. Returns by how many offsets the level advanced.
    pub(crate) fn advance(&self, level: i32, offset: i64, log_end: i64) -> u64 {
        let levels = self.next.read();
        let Some(next) = levels.get(&level) else {
            return 0;
        };
        // This order matters: a reader that sees the new offset also sees the new end.
        self.delivered_end.fetch_max(log_end, Ordering::AcqRel);
        let before = next.fetch_max(offset, Ordering::AcqRel);
        u64::try_from(offset - before).unwrap_or(0)
    }

    /// All offsets, by level.
    pub(crate) fn all(&self) -> ByLevel {
        let load = |(level, next): (&i32, &AtomicI64)| (*level, next.load(Ordering::Acquire));
        self.next.read().iter().map(load).collect()
    }

    /// Saves changed offsets whose messages are durable: the log is flushed up to `flushed`.
    pub(crate) fn save(&self, state: &StateFiles, flushed: i64) -> Result<(), StoreError> {
        let mut saving = self.saving.lock();
        let offsets = self.all();
        let end = self.delivered_end.load(Ordering::Acquire);
        let durable = if end <= flushed {
            saving.noted = None;
            Some(offsets)
        } else {
            let noted = saving.noted.take_if(|(end, _)| *end <= flushed);
            saving.noted.get_or_insert((end, offsets));
            noted.map(|(_, offsets)| offsets)
        };
        if let Some(durable) = durable.filter(|durable| *durable != saving.saved) {
            state.save(FILE_NAME, render(durable.clone()).as_bytes())?;
            saving.saved = durable;
        }
        Ok(())
    }
}

/// Lowers, on disk, each offset beyond the end of its queue to that end. Otherwise new delayed
/// messages would never be delivered. `end` returns the end of a level's queue.
pub fn set_back(state: &StateFiles, end: impl Fn(i32) -> i64) -> Result<(), StoreError> {
    let before = read(state)?;
    let after = before
        .iter()
        .map(|(level, offset)| (*level, end(*level).min(*offset)));
    let after: ByLevel = after.collect();
    if after == before {
        return Ok(());
    }
    Ok(state.save(FILE_NAME, render(after).as_bytes())?)
}

/// The content of the file; empty if it is missing.
fn read(state: &StateFiles) -> Result<ByLevel, StoreError> {
    let Some((table, aside)) = state.load_checked(FILE_NAME, parse)? else {
        return Ok(ByLevel::new());
    };
    state.set_aside(FILE_NAME, &aside);
    Ok(table)
}

/// The offsets by level and the entries that cannot be used; Err if no entry can.
fn parse(bytes: &[u8]) -> Result<(ByLevel, Vec<Aside>), String> {
    let file = json::object(bytes, &["offsetTable"])?;
    let (mut table, mut aside) = (ByLevel::new(), Vec::new());
    for (level, offset) in json::table(&file, "offsetTable")? {
        match (level.parse(), offset.as_i64()) {
            (Ok(level), Some(offset)) if level > 0 && offset >= 0 => {
                table.insert(level, offset);
            }
            _ => aside.push(Aside {
                name: format!("level {level}"),
                reason: "not the offset of a level".to_owned(),
                entry: offset.to_string(),
            }),
        }
    }
    match aside.first() {
        Some(first) if table.is_empty() => Err(format!("{}: {}", first.name, first.reason)),
        _ => Ok((table, aside)),
    }
}

fn render(by_level: impl IntoIterator<Item = (i32, i64)>) -> String {
    let mut text = String::from("{\n\t\"offsetTable\":{");
    let mut comma = "";
    for (level, offset) in by_level {
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{level}:{offset}");
        comma = ",";
    }
    text.push_str("\n\t}\n}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_and_written_as_java_does() {
        let golden = b"{\n\t\"offsetTable\":{1:2,2:2,3:2\n\t}\n}";
        let read = |text: &[u8]| parse(text).map(|(table, aside)| (table, aside.len()));
        let table = BTreeMap::from([(1, 2), (2, 2), (3, 2)]);
        assert_eq!(read(golden), Ok((table.clone(), 0)));
        assert_eq!(render(table).as_bytes(), golden);
        read(b"{}").unwrap_err();
        assert_eq!(read(b"{\"offsetTable\":{}}"), Ok((BTreeMap::new(), 0)));
        let one = BTreeMap::from([(1, 7)]);
        assert_eq!(read(b"{\"offsetTable\":{\"1\":7}}"), Ok((one.clone(), 0)));
        let bad = b"{\"offsetTable\":{1:7,2:-1,x:3,0:1,4:\"y\"}}";
        assert_eq!(read(bad), Ok((one, 4)), "bad entries are set aside");
        read(b"{\"offsetTable\":{1:").unwrap_err();
        let other = read(b"{\"topicConfigTable\":{}}").unwrap_err();
        assert!(other.contains("the content of another file"), "{other}");
        read(b"{\"offsetTable\":{1:true}}").unwrap_err();
    }

    #[test]
    fn a_failed_save_is_repeated_by_the_next_one() {
        let root = tempfile::tempdir().unwrap();
        let state = StateFiles::new(root.path());
        let load = || DelayOffsets::load(&state, 2, |_, offset| offset.unwrap_or(0)).unwrap();
        let offsets = load();
        offsets.advance(1, 3, 1_000);
        let in_the_way = root.path().join("config/delayOffset.json.tmp");
        std::fs::create_dir_all(&in_the_way).unwrap();
        offsets.save(&state, 1_000).unwrap_err();
        std::fs::remove_dir(&in_the_way).unwrap();
        offsets.save(&state, 1_000).unwrap();
        assert_eq!(load().all(), BTreeMap::from([(1, 3), (2, 0)]));
    }

    #[test]
    fn levels_missing_in_the_table_stay_in_the_file() {
        let root = tempfile::tempdir().unwrap();
        let state = StateFiles::new(root.path());
        let load =
            |levels| DelayOffsets::load(&state, levels, |_, offset| offset.unwrap_or(0)).unwrap();
        let long = load(3);
        long.advance(3, 50, 1_000);
        long.save(&state, 1_000).unwrap();
        let short = load(1);
        assert_eq!((short.next(3), short.next(4)), (Some(50), None));
        short.advance(1, 7, 2_000);
        short.save(&state, 2_000).unwrap();
        assert_eq!(load(3).all(), BTreeMap::from([(1, 7), (2, 0), (3, 50)]));
    }

    #[test]
    fn the_file_is_never_ahead_of_the_flushed_log() {
        let root = tempfile::tempdir().unwrap();
        let state = StateFiles::new(root.path());
        let offsets = DelayOffsets::load(&state, 2, |_, offset| offset.unwrap_or(0)).unwrap();
        let saved = |flushed| {
            offsets.save(&state, flushed).unwrap();
            let fresh = DelayOffsets::load(&state, 2, |_, offset| offset.unwrap_or(0)).unwrap();
            fresh.all().into_values().collect::<Vec<_>>()
        };
        offsets.advance(1, 3, 1_000);
        assert_eq!(saved(999), [0, 0]);
        offsets.advance(2, 7, 2_000);
        // The noted offsets are durable now. Newer ones are not, and are noted next.
        assert_eq!(saved(1_500), [3, 0]);
        assert_eq!(saved(1_500), [3, 0]);
        offsets.advance(2, 8, 3_000);
        assert_eq!(saved(2_000), [3, 7]);
        assert_eq!(saved(3_000), [3, 8]);
        assert_eq!(offsets.next(2), Some(8));
        assert_eq!((offsets.next(0), offsets.next(3)), (None, None));
    }
}
