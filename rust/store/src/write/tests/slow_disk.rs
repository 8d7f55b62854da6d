//! A put that waits for a log file that a slow disk is creating. The test sets the store's clock.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::tests::store_rig::{BODY, PATIENCE, rig};
use crate::tests::test_rig::{SlowDisk, request};
use crate::types::{PutStatus, Role};

#[test]
fn a_put_gives_up_waiting_for_its_file() {
    let rig = rig();
    let disk = SlowDisk::of_new_files(rig.root.path());
    disk.close();
    let (sender, refused) = mpsc::channel();
    let store = Arc::clone(&rig.store);
    let putting = thread::spawn(move || {
        let put = || store.wait(store.put(&request("T", &BODY))).status;
        let mut statuses = std::iter::repeat_with(put);
        let refusal = statuses.find(|status| *status != PutStatus::Ok);
        sender.send(refusal.unwrap()).unwrap();
    });
    let until = Instant::now() + PATIENCE;
    while !rig.store.puts.appender.stall.is_on() {
        assert!(Instant::now() < until, "the put gets its file");
        thread::yield_now();
    }
    rig.clock.advance(4_000);
    assert!((4_000..5_000).contains(&rig.store.lock_held_ms()));
    let status = loop {
        assert!(Instant::now() < until, "the put waits for ever");
        // The put may have read the clock after the first step.
        rig.clock.advance(1_000);
        if let Ok(status) = refused.recv_timeout(Duration::from_millis(200)) {
            break status;
        }
    };
    assert_eq!(status, PutStatus::CreateMappedFileFailed);
    disk.open();
    putting.join().unwrap();
}

#[test]
fn the_role_is_known_while_a_put_holds_the_lock() {
    let rig = rig();
    let put_lock = rig.store.puts.appender.tail.lock();
    let (sender, answers) = mpsc::channel();
    let store = Arc::clone(&rig.store);
    let asking = thread::spawn(move || sender.send((store.role(), store.refusal())));
    let answer = answers.recv_timeout(PATIENCE);
    drop(put_lock);
    assert_eq!(answer, Ok((Role::Master, None)));
    asking.join().unwrap().unwrap();
}
