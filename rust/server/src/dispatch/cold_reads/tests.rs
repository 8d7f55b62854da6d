//! A pull that needs the disk and panics.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::io::AsyncReadExt;

use super::*;
use crate::dispatch::slow_disk_tests::{Fixture, until};
use mq_format::remoting::Frame;
use mq_store::testing::SlowDisk;

/// Start of the body in the first record, whose hosts are IPv4.
const BODY_AT: u64 = 88;

/// Panics at the first file operation of a thread that may wait for the disk.
fn panics_once() -> bool {
    static IS_ARMED: AtomicBool = AtomicBool::new(true);
    let is_cold = thread::current().name() == Some(THREADS);
    assert!(
        !(is_cold && IS_ARMED.swap(false, Ordering::SeqCst)),
        "the disk of the test"
    );
    false
}

/// A damaged record is read again by a thread that may wait for the disk.
fn damage_the_first_record(root: &Path) {
    let path = root.join("commitlog/00000000000000000000");
    let log = std::fs::File::options().write(true).open(path).unwrap();
    log.write_all_at(b"?", BODY_AT).unwrap();
}

#[tokio::test]
async fn a_panic_in_a_read_is_counted_and_ends_one_connection() {
    let root = tempfile::tempdir().unwrap();
    let _disk = SlowDisk::under(root.path(), |_, _| panics_once());
    let mut fixture = Fixture::new(root.path()).await;
    fixture.store_first();
    damage_the_first_record(root.path());
    let core = Arc::clone(&fixture.core);
    let reading = Arc::clone(&core);
    let threads = thread::Builder::new().name(THREADS.into());
    let reader = threads.spawn(move || read_cold(&reading)).unwrap();

    assert_eq!(fixture.pull(), None, "the thread gets it");
    until("it is noted", || !core.stats.services.all().is_empty());
    let reason = core.stats.services.all()[THREADS].now.clone().unwrap();
    assert!(reason.contains("the disk of the test"), "{reason}");
    until("its client is told", || fixture.peer.is_closing());

    fixture.reconnect().await;
    assert_eq!(fixture.pull(), None);
    let mut answer = vec![0; 4];
    fixture.far.read_exact(&mut answer).await.unwrap();
    let length = u32::from_be_bytes(*answer.first_chunk().unwrap());
    answer.resize(4 + length as usize, 0);
    fixture.far.read_exact(&mut answer[4..]).await.unwrap();
    assert!(Frame::decode(&answer).is_ok());
    until("the thread works again", || {
        core.stats.services.all()[THREADS].now.is_none()
    });
    assert_eq!(core.stats.services.all()[THREADS].count, 1);
    drop(core.waiting.cold.close());
    reader.join().unwrap();
}
