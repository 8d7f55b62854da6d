//! Scans groups of records, in memory and by reading.

use std::sync::Arc;

use super::*;
use mq_base::clock::SystemClock;
use mq_format::message::{BLANK_MAGIC, MAGIC};
use mq_log::{Directory, WriteMode, Writer};

const FILE_BYTES: u64 = 3 << 20;

/// Records and their offsets.
type Records = Vec<(u64, Vec<u8>)>;

/// Two files of records of many lengths; one record is longer than a view.
fn filled(files: Directory) -> (Arc<Segments>, Records) {
    let log = Arc::new(Segments::open(files, FILE_BYTES).unwrap());
    let mut writer = Writer::new(Arc::clone(&log), FILE_BYTES, SystemClock::shared());
    let mut records = Vec::new();
    let mut add = |size: usize, is_rolled: bool| {
        if is_rolled {
            let rest = (FILE_BYTES - log.max_offset()) as i32;
            let blank = [rest.to_be_bytes(), BLANK_MAGIC.to_be_bytes()].concat();
            writer.roll(&[&blank]).unwrap();
        }
        let mut record = vec![size as u8; size];
        record[..4].copy_from_slice(&(size as i32).to_be_bytes());
        record[4..8].copy_from_slice(&MAGIC.to_be_bytes());
        records.push((log.max_offset(), record.clone()));
        writer.write(&[&record]).unwrap();
    };
    (0..1_000).for_each(|_| add(1_100, false));
    (0..700).for_each(|number| add(100 + number * 37 % 3_000, false));
    add(VIEW_BYTES + 5, true);
    add(CHUNK_BYTES, false);
    (0..50).for_each(|number| add(100 + number, false));
    (log, records)
}

fn walked(log: &impl LogRead, scanner: &mut LogScanner, limit: u64) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    loop {
        match scanner.steps(log, limit).unwrap() {
            Step::Record(records) => {
                let records = records.iter();
                found.extend(records.map(|(offset, bytes)| (offset, bytes.to_vec())));
            }
            Step::Blank => {}
            Step::Invalid | Step::End => return found,
        }
    }
}

fn finds_every_record(files: Directory, is_viewed: bool) {
    let (log, records) = filled(files);
    assert_eq!(log.view(0, 100).is_some(), is_viewed);
    let end = log.max_offset();
    assert!(walked(&*log, &mut LogScanner::from(0), end) == records);
    // There is nothing after the end, and a record that ends after the limit is not returned.
    let mut scanner = LogScanner::from(0);
    assert!(walked(&*log, &mut scanner, u64::MAX) == records);
    let mut scanner = LogScanner::from(0);
    let limit = records[500].0 + 8;
    assert!(walked(&*log, &mut scanner, limit) == records[..500]);
    assert_eq!(scanner.offset(), records[500].0);
    scanner.forget();
    assert!(walked(&*log, &mut scanner, end) == records[500..]);
}

#[test]
fn records_are_found_in_groups_by_view_or_by_reading() {
    for (mode, is_viewed) in [(WriteMode::Map, true), (WriteMode::Write, false)] {
        let root = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let [log, workshop] = ["commitlog", "workshop"].map(|name| root.path().join(name));
        finds_every_record(Directory::open(&log, &workshop, mode).unwrap(), is_viewed);
    }
}

#[test]
fn viewed_records_stay_readable_while_their_file_is_deleted() {
    let root = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let [log, workshop] = ["commitlog", "workshop"].map(|name| root.path().join(name));
    let files = Directory::open(&log, &workshop, WriteMode::Map).unwrap();
    let (log, records) = filled(files);
    let mut scanner = LogScanner::from(0);
    let Step::Record(first) = scanner.steps(&*log, u64::MAX).unwrap() else {
        panic!("records lie there");
    };
    let removed = log.remove_first().unwrap().unwrap();
    assert!(removed.is_read());
    assert!(
        first.iter().eq(records
            .iter()
            .map(|(at, bytes)| (*at, &**bytes))
            .take(GROUP))
    );
    scanner.forget();
    assert!(!removed.is_read());
}
