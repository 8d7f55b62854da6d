//! Index files of any slot and entry counts, opened without the settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::derive::index::files::IndexFiles;
use crate::derive::index::writer::IndexWriter;
use crate::types::StoreError;
use mq_base::clock::ManualClock;
use mq_format::index::{IndexHeader, IndexLayout};
use mq_format::message::Outline;
use mq_log::Access;

const START_MS: i64 = 1_700_000_000_000;

fn load(
    root: &Path,
    layout: Option<(u32, u32)>,
    access: Access,
) -> Result<Arc<IndexFiles>, StoreError> {
    let (slots, entries) = layout.unzip();
    IndexFiles::load(root, slots, entries, access).map(Arc::new)
}

/// Adds the messages from number `from` on with two keys each. The first starts at log offset
/// `start`.
fn add(files: &Arc<IndexFiles>, start: i64, (from, to): (i64, i64)) {
    let mut writer = IndexWriter::resume(Arc::clone(files), ManualClock::at(START_MS)).unwrap();
    for number in from..to {
        let properties = format!("UNIQ_KEY\x01u{number}\x02KEYS\x01k{number}");
        let record = Outline {
            queue_id: 0,
            queue_offset: number,
            sys_flag: 0,
            store_timestamp_ms: START_MS + number * 700,
            topic: "T",
            properties: properties.as_bytes(),
        };
        writer.add_record(start + number * 150, &record).unwrap();
    }
    writer.write().unwrap();
}

/// An index with these messages.
fn index_of(layout: (u32, u32), start: i64, messages: i64) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    add(
        &load(root.path(), Some(layout), Access::Append).unwrap(),
        start,
        (0, messages),
    );
    root
}

fn file(root: &Path) -> PathBuf {
    let mut files: Vec<_> = std::fs::read_dir(root.join("index"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.swap_remove(0)
}

fn change(root: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(file(root)).unwrap();
    change(&mut bytes);
    std::fs::write(file(root), bytes).unwrap();
}

fn assert_finds(files: &IndexFiles, start: i64, (from, to): (i64, i64)) {
    for number in from..to {
        for key in [format!("u{number}"), format!("k{number}")] {
            let found = files.look_up("T", &key, 64, 0, i64::MAX).physical_offsets;
            assert_eq!(found, [start + number * 150], "{key}");
        }
    }
}

#[test]
fn any_sizes_are_read_from_the_files() {
    let sizes = [
        (100, 400),
        (100, 300),
        (7, 1_000),
        (1, 50),
        (1_000, 17),
        (64, 64),
        (4_999, 3),
    ];
    for (slots, entries) in sizes {
        for start in [0, 77_000] {
            for messages in [1, 2, i64::from(entries) / 3, i64::from(entries)] {
                let root = index_of((slots, entries), start, messages);
                let files = load(root.path(), None, Access::Append).unwrap();
                let place = format!("{slots} slots, {entries} entries, {messages} messages");
                assert!(files.is_whole().unwrap(), "{place}");
                let layout = files.files()[0].layout();
                assert_eq!(layout, IndexLayout { slots, entries }, "{place}");
                assert_finds(&files, start, (0, messages));
                add(&files, start, (messages, messages + 5));
                assert_finds(&files, start, (0, messages + 5));
            }
        }
    }
}

#[test]
fn the_sizes_are_read_from_any_of_several_files() {
    let root = index_of((100, 30), 0, 40);
    assert!(
        std::fs::read_dir(root.path().join("index"))
            .unwrap()
            .count()
            > 2
    );
    change(root.path(), |bytes| bytes[39] ^= 64);
    let files = load(root.path(), None, Access::Read).unwrap();
    let layout = files.files()[1].layout();
    assert_eq!((layout.slots, layout.entries), (100, 30));
}

#[test]
fn sizes_are_found_despite_entries_missing_in_the_header() {
    let root = index_of((100, 300), 0, 60);
    // As after kill -9: entries and slots are written before the header.
    change(root.path(), |bytes| {
        let count = i32::from_be_bytes(bytes[36..40].try_into().unwrap()) - 7;
        bytes[36..40].copy_from_slice(&count.to_be_bytes());
        let at = 40 + 400 + 20 * (count as usize - 1) + 4;
        let end: [u8; 8] = bytes[at..at + 8].try_into().unwrap();
        bytes[24..32].copy_from_slice(&end);
    });
    let files = load(root.path(), None, Access::Read).unwrap();
    let layout = files.files()[0].layout();
    assert_eq!((layout.slots, layout.entries), (100, 300));
}

#[test]
fn a_file_without_entries_is_not_continued_with_guessed_sizes() {
    let root = tempfile::tempdir().unwrap();
    let empty = load(root.path(), Some((100, 300)), Access::Append).unwrap();
    empty.create(START_MS, Default::default()).unwrap();
    drop(empty);
    assert!(
        load(root.path(), None, Access::Read)
            .unwrap()
            .files()
            .is_empty()
    );
    let files = load(root.path(), None, Access::Append).unwrap();
    assert!(files.files().is_empty() && files.is_cut());
    add(&files, 0, (0, 3));
    let made = files.files()[0].layout();
    assert_eq!((made.slots, made.entries), (5_000_000, 20_000_000));
    // With the configured sizes, it is continued.
    let root = tempfile::tempdir().unwrap();
    let empty = load(root.path(), Some((100, 300)), Access::Append).unwrap();
    let previous = IndexHeader {
        end_timestamp_ms: START_MS,
        end_physical_offset: 7,
        ..IndexHeader::default()
    };
    empty.create(START_MS, previous).unwrap();
    let again = load(root.path(), Some((100, 300)), Access::Append).unwrap();
    assert_eq!(again.files().len(), 1);
}

#[test]
fn wrong_sizes_are_refused_with_the_sizes_of_the_files() {
    let root = index_of((100, 300), 0, 60);
    // 4 * 200 + 20 * 280 gives the same length.
    for set in [(200, 280), (5_000, 20_000)] {
        let error = load(root.path(), Some(set), Access::Append)
            .unwrap_err()
            .to_string();
        assert!(error.contains("index/") && !error.contains('\n'), "{error}");
        assert!(
            error.contains("maxHashSlotNum=100 and maxIndexNum=300"),
            "{error}"
        );
    }
    let half = IndexFiles::load(root.path(), Some(200), None, Access::Append).unwrap_err();
    assert!(half.to_string().contains("maxHashSlotNum=100"), "{half}");
    let half = IndexFiles::load(root.path(), None, Some(300), Access::Append).unwrap();
    assert_eq!(half.files()[0].layout().slots, 100);
}

#[test]
fn a_file_that_fits_no_sizes_is_rebuilt_by_the_owner_only() {
    let root = index_of((100, 300), 0, 60);
    change(root.path(), |bytes| bytes[39] ^= 4);
    let error = load(root.path(), None, Access::Read)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("index/") && error.contains("mqstore rebuild"),
        "{error}"
    );
    let files = load(root.path(), None, Access::Append).unwrap();
    assert!(files.files().is_empty() && files.is_cut());
}

#[test]
fn a_file_of_another_length_and_later_files_are_removed() {
    for length in [0, 1, 39, 40, 300, 639, 641] {
        let root = index_of((10, 30), 0, 60);
        let whole = std::fs::read_dir(root.path().join("index"))
            .unwrap()
            .count();
        let second = {
            let mut all: Vec<_> = std::fs::read_dir(root.path().join("index"))
                .unwrap()
                .collect();
            all.sort_by_key(|entry| entry.as_ref().unwrap().path());
            all[1].as_ref().unwrap().path()
        };
        let mut bytes = std::fs::read(&second).unwrap();
        bytes.resize(length, 0);
        std::fs::write(&second, bytes).unwrap();
        assert_eq!(
            load(root.path(), None, Access::Read).unwrap().files().len(),
            whole - 1
        );
        let files = load(root.path(), None, Access::Append).unwrap();
        assert_eq!((files.files().len(), files.is_cut()), (1, true), "{length}");
        assert!(!files.is_whole().unwrap());
    }
}

#[test]
fn a_link_is_not_followed() {
    let root = index_of((10, 30), 0, 5);
    let path = file(root.path());
    std::fs::rename(&path, root.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(root.path().join("elsewhere"), &path).unwrap();
    let error = load(root.path(), None, Access::Append)
        .unwrap_err()
        .to_string();
    assert!(error.contains("symbolic link"), "{error}");
}
