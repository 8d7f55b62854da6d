//! A full disk: puts are refused, reads work, and puts work again when there is space.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use mq_store::{PutStatus, Store};
use mq_testing::stores::directory;

use crate::oracle::{Oracle, Sent, close, judge};
use crate::rig::{Message, Rig, TOPICS, drain, put};

const PATIENCE: Duration = Duration::from_secs(60);
const BALLAST_BYTES: usize = 200 << 10;
/// Messages stored after there is space again.
const AFTERWARDS: usize = 40;

/// A small file system; None if this process may not mount one.
struct SmallDisk {
    directory: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=640k", "mqstack-test"]);
        let mounted = mount.arg(directory.path()).output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then_some(Self { directory })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

/// The part of the store that first finds the disk full.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// The log: other programs leave some space, and the log uses it up.
    Log,
    /// The index: other programs take all space while the log still has allocated blocks, and the
    /// index needs a new file for every seven messages.
    Index,
}

/// Fills the disk with one file.
fn take_all(path: &Path) {
    let mut file = fs::File::options().append(true).open(path).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}

fn fill_and_go_on(sync_flush: bool, first: First) {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!(
            "no mount here: the tests that let blocks run out by the seam stand for this one"
        );
        return;
    };
    let index_entries = match first {
        First::Log => 60,
        First::Index => 8,
    };
    let rig = Rig {
        index_entries,
        ..Rig::new(sync_flush, 64 << 10)
    };
    let root = disk.path().join("store");
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![1; BALLAST_BYTES]).unwrap();
    let store = rig.open(&root);
    let mut oracle = Oracle::default();
    let mut put = |number| {
        let (status, sent) = store_one(&store, number, sync_flush);
        oracle.sent.insert(sent.message.key.clone(), sent);
        status
    };
    let others = || {
        if first == First::Index {
            take_all(&ballast);
        }
    };
    let status = fill(&mut put, others);
    let is_full = [
        PutStatus::ServiceNotAvailable,
        PutStatus::CreateMappedFileFailed,
    ];
    assert!(is_full.contains(&status), "{status:?}");
    // Messages are dispatched some time after they are stored.
    let reads_go_on = || !drain(&store, TOPICS[0], 0).unwrap().is_empty();
    wait_until(&store, "reads go on", reads_go_on);
    let is_waited_for = |why: String| why.contains("dispatch waits for room");
    let is_met = || first != First::Index || store.refusal().is_some_and(is_waited_for);
    wait_until(&store, "dispatch waits", is_met);

    fs::remove_file(&ballast).unwrap();
    for number in 0..AFTERWARDS {
        // Each attempt puts a new message.
        let mut tries = (10_000 + 1_000_000 * number)..;
        let is_stored = || put(tries.next().unwrap_or_default()) == PutStatus::Ok;
        wait_until(&store, "puts go on", is_stored);
    }
    let is_delivered = || delivers_all(&store, &oracle);
    wait_until(&store, "dispatch goes on", is_delivered);
    close(store).unwrap();
    let copy = directory();
    crate::rig::copy_tree(&root, copy.path());
    judge(copy.path(), &oracle, usize::MAX, &rig).unwrap();
}

/// Puts until a put is refused, and returns its status. `others` fills the disk after the first
/// put.
fn fill(put: &mut impl FnMut(usize) -> PutStatus, others: impl Fn()) -> PutStatus {
    for number in 0..2_000 {
        let status = put(number);
        if status != PutStatus::Ok {
            return status;
        }
        if number == 0 {
            others();
        }
    }
    panic!("a disk of 640 KiB takes no 2,000 KiB");
}

fn wait_until(store: &Store, what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        let why = store.refusal();
        assert!(Instant::now() < deadline, "{what}: {why:?}");
        std::thread::yield_now();
    }
}

/// Whether each acknowledged message is delivered once, at its position.
fn delivers_all(store: &Store, oracle: &Oracle) -> bool {
    let mut places = HashMap::new();
    for topic in TOPICS {
        for found in drain(store, topic, 0).unwrap() {
            assert!(oracle.sent.contains_key(&found.key), "{}", found.key);
            let before = places.insert(found.key.clone(), found.queue_offset);
            assert_eq!(before, None, "{} is there twice", found.key);
        }
    }
    let place = |sent: &Sent| Some((sent.message.key.clone(), sent.queue_offset?));
    let mut expected = oracle.sent.values().filter_map(place);
    expected.all(|(key, offset)| places.get(&key) == Some(&offset))
}

fn store_one(store: &Store, number: usize, sync_flush: bool) -> (PutStatus, Sent) {
    let message = Message::new(
        &format!("m{number}"),
        TOPICS[number % 2],
        0,
        vec![b'x'; 900],
    );
    let result = put(store, &message);
    let is_ok = result.status == PutStatus::Ok;
    let sent = Sent {
        message,
        queue_offset: is_ok.then_some(result.queue_offset),
        begun: 0,
        promised: (is_ok && sync_flush).then_some(0),
    };
    (result.status, sent)
}

#[test]
fn a_full_disk_refuses_puts_and_recovers_with_sync_flush() {
    fill_and_go_on(true, First::Log);
    fill_and_go_on(true, First::Index);
}

#[test]
fn a_full_disk_refuses_puts_and_recovers_with_async_flush() {
    fill_and_go_on(false, First::Log);
    fill_and_go_on(false, First::Index);
}
