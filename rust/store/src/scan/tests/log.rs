//! Finds the end of a log and repairs damage before it, over small log files.

use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;

use crate::scan::log_check::{Left, LogCheck};
use crate::scan::log_scanner::{LogScanner, Step};
use crate::types::StoreError;
use mq_base::clock::SystemClock;
use mq_format::message::{self, CheckCrc, RecordView, Version, sys_flag};
use mq_log::testing::TestDisk;
use mq_log::{Segments, Writer};

pub(super) const FILE_BYTES: u64 = 8192;
const TOPIC: &str = "TopicA";
/// Bytes of a record in these tests without body and properties.
const RECORD_BYTES: usize = 91 + TOPIC.len();

pub(super) struct Rig {
    root: TempDir,
    pub(super) log: Arc<Segments>,
    _disk: TestDisk,
    /// Start of each record, and the end of the log.
    pub(super) starts: Vec<u64>,
    pub(super) end: u64,
}

pub(super) fn record<'a>(
    queue_offset: i64,
    body: &'a [u8],
    properties: &'a [u8],
) -> RecordView<'a> {
    RecordView {
        version: Version::V1,
        body_crc: message::body_crc(body),
        queue_id: 0,
        flag: 0,
        queue_offset,
        physical_offset: 0,
        sys_flag: 0,
        born_timestamp_ms: 1,
        born_host: "127.0.0.1:1".parse().unwrap(),
        store_timestamp_ms: 1_000 + queue_offset,
        store_host: "127.0.0.1:2".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        topic: TOPIC,
        properties,
    }
}

/// A log of these records.
pub(super) fn rig<'a>(file_bytes: u64, records: impl IntoIterator<Item = RecordView<'a>>) -> Rig {
    let disk = TestDisk::new();
    let log = Arc::new(Segments::open(disk.files(), file_bytes).unwrap());
    let mut writer = Writer::new(Arc::clone(&log), file_bytes, SystemClock::shared());
    let mut starts = Vec::new();
    for mut record in records {
        if writer.remaining() > 0 && writer.remaining() < record.size() as u64 + 8 {
            let blank = message::blank(u32::try_from(writer.remaining()).unwrap());
            writer.roll(&[&blank]).unwrap();
        }
        record.physical_offset = writer.position().cast_signed();
        starts.push(writer.position());
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        writer.write(&[&bytes]).unwrap();
    }
    let end = writer.position();
    drop(writer);
    // As after an open, when the end is not known.
    log.truncate_to(end.next_multiple_of(file_bytes)).unwrap();
    Rig {
        root: tempfile::tempdir().unwrap(),
        log,
        _disk: disk,
        starts,
        end,
    }
}

/// Ten records with `body` bytes of body.
pub(super) fn ten(body: usize) -> Rig {
    let body = vec![7; body];
    rig(FILE_BYTES, (0..10).map(|at| record(at, &body, b"a\x01b")))
}

impl Rig {
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        self.log.overwrite(offset, bytes).unwrap();
    }

    pub(super) fn try_check(
        &self,
        repairs: bool,
        left: Left,
    ) -> Result<(u64, Vec<(u64, u64)>), StoreError> {
        let mut check = LogCheck::new(self.root.path(), &self.log, repairs, left);
        let end = check.run(self.log.min_offset(), None, |_| ())?;
        Ok((end, check.repaired_ranges().to_vec()))
    }

    pub(super) fn check(&self) -> (u64, Vec<(u64, u64)>) {
        let found = self.try_check(true, Left::Unclean(0)).unwrap();
        let again = self.try_check(false, Left::Unclean(0)).unwrap();
        assert_eq!(again, (found.0, Vec::new()), "nothing left to repair");
        found
    }

    /// Queue offset and properties of every record except replacements.
    fn records(&self, end: u64) -> Vec<(i64, Vec<u8>)> {
        let mut scanner = LogScanner::from(self.log.min_offset());
        let mut found = Vec::new();
        loop {
            let offset = scanner.offset();
            match scanner.step(&*self.log, end).unwrap() {
                Step::Record(bytes) => {
                    let record = RecordView::parse(bytes, CheckCrc::Yes).unwrap();
                    assert_eq!(record.physical_offset.cast_unsigned(), offset);
                    if sys_flag::is_queued(record.sys_flag) {
                        found.push((record.queue_offset, record.properties.to_vec()));
                    }
                }
                Step::Blank => {}
                Step::End => return found,
                Step::Invalid => panic!("no record at {offset}"),
            }
        }
    }

    pub(super) fn queue_offsets(&self, end: u64) -> Vec<i64> {
        self.records(end).into_iter().map(|(at, _)| at).collect()
    }

    /// Names and contents of the files in quarantine.
    fn quarantine(&self) -> Vec<(String, Vec<u8>)> {
        let path = self.root.path().join("mqstack/quarantine");
        let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
        let mut found: Vec<_> = entries
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, std::fs::read(entry.path()).unwrap())
            })
            .collect();
        found.sort();
        found
    }
}

#[test]
fn an_undamaged_log_is_checked_to_its_end() {
    let rig = ten(500);
    assert_eq!(rig.check(), (rig.end, vec![]));
    assert_eq!(
        rig.try_check(false, Left::Clean).unwrap(),
        (rig.end, vec![])
    );
    let empty = self::rig(FILE_BYTES, []);
    assert_eq!(empty.check(), (0, vec![]));
}

#[test]
fn damage_is_saved_and_overwritten_whatever_its_length() {
    for body in [0, 3, 12, 500, 1_500] {
        let rig = ten(body);
        let (from, to) = (rig.starts[3], rig.starts[4]);
        let mut before = vec![0; (to - from) as usize];
        rig.log.read_at(from, &mut before).unwrap();
        before[4] = 0;
        rig.write(from + 4, &[0]);
        assert_eq!(rig.check(), (rig.end, vec![(from, to)]), "{body}");
        assert_eq!(rig.queue_offsets(rig.end), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
        assert_eq!(rig.quarantine(), [(format!("{from:020}-{to:020}"), before)]);
    }
}

#[test]
fn damage_across_two_files_becomes_two_records() {
    let rig = ten(1_500);
    // Five records per file: the last one, the blank record, and the first one of the next file.
    let (from, to) = (rig.starts[4], rig.starts[6]);
    rig.write(from, &[0; 40]);
    rig.write(rig.starts[5] - 4, &[0; 4]);
    let last = rig.starts[4] + RECORD_BYTES as u64 + 1_503;
    rig.write(last, &[9; 8]);
    rig.write(rig.starts[5] + 100, &[9; 8]);
    assert_eq!(rig.check(), (rig.end, vec![(from, to)]));
    assert_eq!(rig.queue_offsets(rig.end), [0, 1, 2, 3, 6, 7, 8, 9]);
}

#[test]
fn a_lost_blank_record_is_restored() {
    let rig = ten(1_500);
    let (from, to) = (rig.end_of(4), FILE_BYTES);
    rig.write(from, &[0; 8]);
    assert_eq!(rig.check(), (rig.end, vec![(from, to)]));
    assert_eq!(rig.queue_offsets(rig.end).len(), 10);
}

impl Rig {
    fn end_of(&self, record: usize) -> u64 {
        let mut scanner = LogScanner::from(self.starts[record]);
        scanner.step(&*self.log, u64::MAX).unwrap();
        scanner.offset()
    }
}

#[test]
fn a_few_bad_bytes_go_to_the_record_before_them() {
    // No writer leaves such a gap, but damage can shorten a record so that it looks valid.
    let rig = ten(200);
    let mut bytes = Vec::new();
    let short = [7; 170];
    let mut record = record(3, &short, b"a\x01b");
    record.physical_offset = rig.starts[3].cast_signed();
    record.encode(&mut bytes);
    rig.write(rig.starts[3], &bytes);
    let gap = (rig.starts[3] + bytes.len() as u64, rig.starts[4]);
    assert_eq!(gap.1 - gap.0, 30);
    assert_eq!(rig.check(), (rig.end, vec![gap]));
    let records = rig.records(rig.end);
    assert_eq!(records.len(), 10);
    assert_eq!(records[3], (3, [&b"a\x01b"[..], &[2; 30]].concat()));
}

#[test]
fn a_tail_too_short_for_a_blank_takes_the_record_before() {
    let rig = ten(1_500);
    let room = FILE_BYTES - rig.starts[4] - 5;
    let body = vec![7; room as usize - RECORD_BYTES];
    let mut bytes = Vec::new();
    let mut record = record(4, &body, b"");
    record.physical_offset = rig.starts[4].cast_signed();
    record.encode(&mut bytes);
    bytes.extend([0; 5]);
    rig.write(rig.starts[4], &bytes);
    let repaired = vec![(FILE_BYTES - 5, FILE_BYTES)];
    assert_eq!(rig.check(), (rig.end, repaired));
    assert_eq!(rig.queue_offsets(rig.end), [0, 1, 2, 3, 5, 6, 7, 8, 9]);
}

#[test]
fn a_missing_file_is_filled_in_when_records_follow() {
    let body = vec![7; 1_500];
    let whole = rig(FILE_BYTES, (0..20).map(|at| record(at, &body, b"")));
    let disk = TestDisk::new();
    for start in [0, 2 * FILE_BYTES, 3 * FILE_BYTES] {
        let mut bytes = vec![0; FILE_BYTES as usize];
        whole.log.read_at(start, &mut bytes).unwrap();
        disk.put_file(start, &bytes);
    }
    let rig = Rig {
        log: Arc::new(Segments::open(disk.files(), FILE_BYTES).unwrap()),
        _disk: disk,
        ..whole
    };
    let refused = rig.try_check(false, Left::Clean).unwrap_err().to_string();
    assert!(
        refused.contains("00000000000000008192 at byte 0"),
        "{refused}"
    );
    assert_eq!(rig.check(), (rig.end, vec![(FILE_BYTES, 2 * FILE_BYTES)]));
    assert!(rig.log.missing(9).is_empty());
    let kept: Vec<_> = (0..5).chain(10..20).collect();
    assert_eq!(rig.queue_offsets(rig.end), kept);
}

#[test]
fn refused_damage_is_reported_with_position_and_remedy() {
    let rig = ten(500);
    rig.write(rig.starts[3] + 200, &[0]);
    let refused = rig.try_check(false, Left::Clean).unwrap_err();
    let text = refused.to_string();
    let place = format!(
        "commitlog/00000000000000000000 at byte {0} (offset {0}): 600 bytes",
        rig.starts[3]
    );
    assert!(text.contains(&place), "{text}");
    assert!(text.contains("mqstore verify ") && text.contains("damagePolicy=repair"));
    assert!(matches!(refused, StoreError::Damaged { .. }));
    assert!(!rig.root.path().join("mqstack").exists(), "nothing written");
}

/// A log of many blocks with records of many lengths.
fn large() -> Rig {
    let body: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    let size = |at: i64| (at * 7_919 % 150_001) as usize;
    let records = (0..500).map(|at| record(at, &body[..size(at)], b"KEYS\x01k"));
    rig(20 << 20, records)
}

#[test]
fn parallel_blocks_find_the_same_as_one_scan() {
    let rig = large();
    assert!(rig.end > 32 << 20);
    assert_eq!(rig.check(), (rig.end, vec![]));
    let mut expected = Vec::new();
    for at in [1, 100, 101, 231, 232, 233, 400] {
        rig.write(rig.starts[at] + 60, &[0xFF; 4]);
        rig.write(rig.starts[at] + 4, &[0xFF; 4]);
        expected.push(at as i64);
    }
    let (end, repaired) = rig.check();
    assert_eq!((end, repaired.len()), (rig.end, 4));
    let mut found = rig.queue_offsets(end);
    found.extend(&expected);
    found.sort_unstable();
    assert!(found.into_iter().eq(0..500));
}

#[test]
fn a_torn_tail_ends_a_large_log() {
    let rig = large();
    let at = 300;
    let torn = rig.starts[at] + 50;
    let zeros = vec![0; 1 << 20];
    let mut from = torn;
    while from < rig.log.max_offset() {
        let room = rig.log.next_file_start(from) - from;
        let count = room.min(zeros.len() as u64);
        rig.write(from, &zeros[..count as usize]);
        from += count;
    }
    assert_eq!(rig.check(), (rig.starts[at], vec![]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Any bytes may overwrite a log; after the repair it is a valid log.
    #[test]
    fn any_damage_leaves_a_log(
        bodies in prop::collection::vec(0_usize..1_200, 1..30),
        hits in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<u8>(), 1_usize..200),
            1..8,
        ),
        is_clean: bool,
    ) {
        let body = [7; 1_200];
        let records = bodies.iter().zip(0..);
        let records = records.map(|(size, at)| record(at, &body[..*size], b"a\x01b"));
        let rig = rig(FILE_BYTES, records);
        for (place, byte, count) in hits {
            let from = place.index(rig.end as usize) as u64;
            let room = (rig.log.next_file_start(from) - from) as usize;
            rig.write(from, &vec![byte; count.min(room)]);
        }
        let left = if is_clean { Left::Clean } else { Left::Unclean(0) };
        let (end, _) = rig.try_check(true, left).unwrap();
        let found = rig.queue_offsets(end);
        prop_assert!(found.len() <= bodies.len());
        prop_assert_eq!(rig.try_check(false, left).unwrap(), (end, vec![]));
    }
}
