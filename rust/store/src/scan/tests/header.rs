//! Records whose header or end contradicts their neighbours.

use crate::scan::log_check::Left;
use crate::scan::tests::log::{FILE_BYTES, record, rig, ten};
use mq_format::message::RecordView;

#[test]
fn a_flipped_queue_offset_is_repaired_from_its_neighbours() {
    for wrong in [3 | 1 << 12, 0, 3 | 1 << 60, 2] {
        let rig = ten(500);
        rig.write(rig.starts[3] + 20, &i64::to_be_bytes(wrong));
        let repaired = vec![(rig.starts[3], rig.starts[4])];
        assert_eq!(rig.check(), (rig.end, repaired), "{wrong}");
        let all: Vec<_> = (0..10).collect();
        assert_eq!(rig.queue_offsets(rig.end), all, "{wrong}");
    }
}

#[test]
fn a_record_with_a_wrong_queue_does_not_raise_its_offset() {
    let records = (0..10).map(|at| RecordView {
        queue_id: i32::from(at == 5),
        queue_offset: if at < 5 { at } else { at - 1 },
        ..record(at, b"body", b"")
    });
    let rig = rig(FILE_BYTES, records);
    // The record of queue 1 now claims queue offset 4000 of queue 0.
    rig.write(rig.starts[5] + 12, &0_i32.to_be_bytes());
    rig.write(rig.starts[5] + 20, &4_000_i64.to_be_bytes());
    let repaired = vec![(rig.starts[5], rig.starts[6])];
    assert_eq!(rig.check(), (rig.end, repaired));
    assert_eq!(rig.queue_offsets(rig.end), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn gaps_and_restarts_of_queue_offsets_are_accepted() {
    let offsets = [0, 1, 2, 10, 11, 12, 0, 1, 2, 2, 3];
    let records = offsets.map(|at| RecordView {
        store_timestamp_ms: 5,
        ..record(at, b"body", b"")
    });
    let rig = rig(FILE_BYTES, records);
    assert_eq!(rig.check(), (rig.end, vec![]));
    assert_eq!(rig.queue_offsets(rig.end), offsets);
}

#[test]
fn a_last_record_whose_properties_end_in_zeros_may_be_torn() {
    let records = || {
        [
            record(0, b"body", b"a\x01b\0"),
            record(1, b"body", b"a\x01b\0"),
        ]
    };
    let rig = rig(FILE_BYTES, records());
    // The first record is complete, because something follows it.
    assert_eq!(rig.check(), (rig.starts[1], vec![]));
    let rig = crate::scan::tests::log::rig(FILE_BYTES, records());
    let durable = Left::Unclean(1_001);
    assert_eq!(rig.try_check(true, durable).unwrap(), (rig.end, vec![]));
    let clean = rig.try_check(true, Left::Clean).unwrap();
    assert_eq!(clean, (rig.end, vec![]));
}

#[test]
fn a_record_whose_properties_were_lost_before_others_is_damage() {
    let properties = [&b"a\x01"[..], &[b'x'; 300]].concat();
    let rig = rig(
        FILE_BYTES,
        (0..10).map(|at| record(at, &[7; 500], &properties)),
    );
    // A page with the end of one record and the start of the next did not reach the disk.
    let lost = rig.starts[4];
    assert!(lost < 4096 && rig.starts[5] > 4096);
    rig.write(lost - 100, &vec![0; (rig.starts[5] - lost + 100) as usize]);
    assert_eq!(rig.check(), (rig.end, vec![(rig.starts[3], rig.starts[5])]));
    assert_eq!(rig.queue_offsets(rig.end), [0, 1, 2, 5, 6, 7, 8, 9]);
}

#[test]
fn a_page_of_zeros_within_properties_was_lost() {
    let properties = [&b"a\x01"[..], &[b'x'; 10_000]].concat();
    let rig = rig(1 << 16, (0..3).map(|at| record(at, &[7; 500], &properties)));
    let page = (rig.starts[1] + 700).next_multiple_of(4096);
    rig.write(page, &[0; 4096]);
    assert_eq!(rig.check(), (rig.end, vec![(rig.starts[1], rig.starts[2])]));
}
