//! A full disk: puts are refused, what is there is read, and once there is room all goes on.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use mqstack_core::store::PutStatus;

use crate::oracle::{Oracle, Sent, judge};
use crate::rig::{Message, Rig, TOPICS, directory, drain, put};

const PATIENCE: Duration = Duration::from_secs(60);
const BALLAST_BYTES: usize = 200 << 10;

/// A small file system; None where this process may not mount one.
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

fn fill_and_go_on(sync_flush: bool) {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!(
            "no mount here: the tests that let blocks run out by the seam stand for this one"
        );
        return;
    };
    let rig = Rig::new(sync_flush, 64 << 10);
    let root = disk.path().join("store");
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![1; BALLAST_BYTES]).unwrap();
    let store = rig.open(&root);
    let mut oracle = Oracle::default();
    let mut refused = None;
    for number in 0..2_000 {
        let (status, sent) = store_one(&store, number, sync_flush);
        oracle.sent.insert(sent.message.key.clone(), sent);
        if status != PutStatus::Ok {
            refused = Some(status);
            break;
        }
    }
    let status = refused.expect("a disk of 640 KiB takes no 2,000 KiB");
    let is_full = [
        PutStatus::ServiceNotAvailable,
        PutStatus::CreateMappedFileFailed,
    ];
    assert!(is_full.contains(&status), "{status:?}");
    assert!(
        !drain(&store, TOPICS[0], 0).unwrap().is_empty(),
        "reads go on"
    );

    fs::remove_file(&ballast).unwrap();
    let deadline = Instant::now() + PATIENCE;
    // A full disk may also have met who writes the index or the queues, who then stops for good.
    let is_stopped = |why: String| why.starts_with("dispatch: ") || !why.contains("No space");
    let is_poisoned = || store.refusal().is_some_and(is_stopped);
    for number in 10_000.. {
        let (status, sent) = store_one(&store, number, sync_flush);
        oracle.sent.insert(sent.message.key.clone(), sent);
        if status == PutStatus::Ok || is_poisoned() {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "puts are still refused: {:?}",
            store.refusal()
        );
        std::thread::yield_now();
    }
    // A store whose queues could not be written says so and is started again.
    let _ = store.close();
    drop(store);
    let copy = directory();
    crate::rig::copy_tree(&root, copy.path());
    judge(copy.path(), &oracle, usize::MAX, &rig).unwrap();
}

fn store_one(
    store: &mqstack_core::store::Store,
    number: usize,
    sync_flush: bool,
) -> (PutStatus, Sent) {
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
fn sync_flush_on_a_full_disk() {
    fill_and_go_on(true);
}

#[test]
fn async_flush_on_a_full_disk() {
    fill_and_go_on(false);
}
