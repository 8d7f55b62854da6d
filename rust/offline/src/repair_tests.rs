//! Repairs stores with many kinds of damage.

use std::fs;

use super::Scan;
use super::rebuild_tests::{assert_opens, assert_whole, place, run, write_at};
use mq_testing::stores::{snapshot, unpack};

#[test]
fn repair_does_not_reuse_the_offset_of_a_lost_last_message() {
    let root = unpack("store");
    let before = Scan::open(root.path()).unwrap();
    let queues = before.queues().unwrap();
    let queue = queues
        .iter()
        .find(|q| q.topic == "TopicTest" && q.queue_id == 2)
        .unwrap();
    let last = before
        .queue_entries("TopicTest", 2, queue.max_offset - 1, 1)
        .unwrap();
    let at = u64::from_be_bytes(*last.first_chunk().unwrap());
    write_at(root.path(), at + 4, &[0xEE; 80]);
    let (_folder, to) = place();
    let done = run(root.path(), Some(&to), true).unwrap();
    assert_eq!(done.repaired[0].0, at);
    assert_eq!(Scan::open(&to).unwrap().queues().unwrap(), queues);
    assert_whole(&to);
    assert_opens(&to, done.log_end);
    // A delayed message became due meanwhile and was added to another queue.
    let after = Scan::open(&to).unwrap().queues().unwrap();
    assert!(after.contains(queue), "{after:?}");
}

#[test]
fn repair_lowers_offsets_beyond_a_lost_tail() {
    let root = unpack("store");
    let last = root.path().join("commitlog/00000000000000196608");
    fs::write(last, b"").unwrap();
    let (_folder, to) = place();
    run(root.path(), Some(&to), true).unwrap();
    let report = Scan::open(&to).unwrap().verify(&mut |_| true).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let delays = fs::read_to_string(to.join("config/delayOffset.json")).unwrap();
    assert_eq!(delays, "{\n\t\"offsetTable\":{1:1,2:1,3:1\n\t}\n}");
}

/// A reproducible sequence of random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn a_repaired_copy_is_whole_after_any_damage() {
    let mut numbers = Numbers(7);
    let healthy = unpack("store");
    let files: Vec<_> = snapshot(healthy.path()).into_iter().collect();
    for round in 0..24 {
        let root = unpack("store");
        for _ in 0..=numbers.below(4) {
            // Two of three rounds damage the log.
            let of_log = numbers.below(3) > 0;
            let is_wanted = |name: &str| name.starts_with("commitlog/") == of_log;
            let some: Vec<_> = files.iter().filter(|(name, _)| is_wanted(name)).collect();
            let (name, content) = some[numbers.below(some.len() as u64) as usize];
            let mut content = content.clone();
            let length = content.len().max(1) as u64;
            let from = numbers.below(length) as usize;
            let count = 1 + numbers.below(3_000) as usize;
            let to = (from + count).min(content.len());
            match numbers.below(4) {
                0 => content[from.min(to)..to].fill(0),
                1 => content[from.min(to)..to].fill(numbers.below(256) as u8),
                2 if to > from => content[from] ^= 1 << numbers.below(8),
                _ => content.truncate(from),
            }
            fs::write(root.path().join(name), content).unwrap();
        }
        let scan = Scan::open(root.path()).unwrap();
        scan.verify(&mut |_| true).unwrap();
        let (_folder, to) = place();
        let done = match run(root.path(), Some(&to), true) {
            Ok(done) => done,
            Err(error) => panic!("round {round}: {error}"),
        };
        let report = Scan::open(&to).unwrap().verify(&mut |_| true).unwrap();
        let left: Vec<_> = report
            .findings
            .iter()
            .filter(|f| f.kind != "state")
            .collect();
        assert!(left.is_empty(), "round {round}: {left:?}");
        assert_opens(&to, done.log_end);
    }
}
