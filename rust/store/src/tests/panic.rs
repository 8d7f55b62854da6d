//! A panic in a thread of the store is logged. Then the thread continues, or the store acknowledges
//! nothing more.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;
use std::{fmt, io};

use super::store_rig::{PATIENCE, settings};
use super::test_rig::request;
use crate::settings::Settings;
use crate::store::Store;
use crate::types::{PutRequest, PutStatus};
use mq_base::clock::SystemClock;
use mq_base::services::Failures;
use mq_log::{IoHook, Operation, Target};

const UPKEEP: &str = "mq-upkeep";
const ALLOCATE: &str = "mq-allocate";

/// Panics at the selected operations while armed.
struct PanicAt {
    finds: fn(&Path, &Operation<'_>) -> bool,
    is_armed: AtomicBool,
}

impl fmt::Debug for PanicAt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PanicAt")
    }
}

impl PanicAt {
    fn new(finds: fn(&Path, &Operation<'_>) -> bool) -> Arc<Self> {
        let is_armed = AtomicBool::new(false);
        Arc::new(Self { finds, is_armed })
    }

    fn arm(&self, is_armed: bool) {
        self.is_armed.store(is_armed, Ordering::SeqCst);
    }
}

/// A log file is opened under its temporary name.
fn is_sync_of_log(path: &Path, operation: &Operation<'_>) -> bool {
    let is_log = path.extension().is_some_and(|extension| extension == "new");
    is_log && matches!(operation, Operation::Sync(..))
}

/// A queue file is opened under its temporary name.
fn is_sync_of_queue(path: &Path, operation: &Operation<'_>) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("new-") && matches!(operation, Operation::Sync(..))
}

fn is_new_log_file(path: &Path, operation: &Operation<'_>) -> bool {
    let is_log = path.extension().is_some_and(|extension| extension == "new");
    is_log && matches!(operation, Operation::Create)
}

impl IoHook for PanicAt {
    fn before(&self, target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64> {
        let is_due = self.is_armed.load(Ordering::SeqCst) && (self.finds)(target.path, operation);
        assert!(!is_due, "the disk of the test");
        Ok(0)
    }

    fn after(&self, _: Target<'_>, _: &Operation<'_>, _: u64) {}
}

fn open(root: &Path, settings: Settings) -> Arc<Store> {
    Store::open(root, settings, SystemClock::shared(), true).unwrap()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "still not: {what}");
        std::thread::yield_now();
    }
}

/// The failures of a service, after its first one.
fn failures(store: &Store, name: &str) -> Failures {
    until("a failure", || store.failures().contains_key(name));
    store.failures()[name].clone()
}

fn refusal(store: &Store) -> String {
    until("a refusal", || store.refusal().is_some());
    store.refusal().unwrap()
}

#[test]
fn a_flush_that_panics_acknowledges_nothing_and_stops_the_store() {
    for sync_flush in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let tape = PanicAt::new(is_sync_of_log);
        let watch = mq_log::watch(root.path(), Arc::clone(&tape) as _);
        let settings = Settings {
            sync_flush,
            flush_interval_ms: 10,
            flush_least_pages: 0,
            ..settings()
        };
        let store = open(root.path(), settings);
        let status = |body| store.wait(store.put(&request("T", body))).status;
        assert_eq!(status(b"before"), PutStatus::Ok);
        tape.arm(true);
        let status_of_lost = status(b"lost");
        assert_eq!(status_of_lost == PutStatus::Ok, !sync_flush);
        let refusal = refusal(&store);
        assert!(
            refusal.contains("flush of the commit log panicked"),
            "{refusal}"
        );
        assert_eq!(status(b"after"), PutStatus::ServiceNotAvailable);
        tape.arm(false);
        store.close().unwrap_err();
        drop(watch);
    }
}

#[test]
fn a_dispatcher_that_panics_stops_the_store() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path(), settings());
    store.on_arrival(Box::new(|_| panic!("of the listener")));
    store.wait(store.put(&request("T", b"x")));
    let refusal = refusal(&store);
    assert!(
        refusal.contains("dispatch") && refusal.contains("of the listener"),
        "{refusal}"
    );
}

#[test]
fn after_a_panic_the_next_delivery_is_made() {
    let root = tempfile::tempdir().unwrap();
    let settings = Settings {
        delay_levels: "1s".to_owned(),
        ..settings()
    };
    let store = open(root.path(), settings);
    let delivered = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&delivered);
    store.on_delivery(Box::new(move |_| {
        let before = count.fetch_add(1, Ordering::SeqCst);
        assert_ne!(before, 0, "the first one fails");
    }));
    let delayed = PutRequest {
        delay_level: 1,
        properties: b"DELAY\x011",
        ..request("T", b"later")
    };
    for _ in 0..2 {
        assert_eq!(store.wait(store.put(&delayed)).status, PutStatus::Ok);
    }
    until("all delivered", || delivered.load(Ordering::SeqCst) >= 3);
    until("a good round", || {
        store.failures()["mq-delay"].now.is_none()
    });
    assert_eq!(store.failures()["mq-delay"].count, 1);
    assert_eq!(store.refusal(), None);
    store.close().unwrap();
}

#[test]
fn a_panic_of_the_upkeep_stops_puts_but_not_the_upkeep() {
    let root = tempfile::tempdir().unwrap();
    let tape = PanicAt::new(is_sync_of_queue);
    let watch = mq_log::watch(root.path(), Arc::clone(&tape) as _);
    let store = open(root.path(), settings());
    tape.arm(true);
    store.wait(store.put(&request("T", b"x")));
    let refusal = refusal(&store);
    assert!(
        refusal.contains("upkeep panicked: the disk of the test"),
        "{refusal}"
    );
    assert_eq!(failures(&store, UPKEEP).count, 1);
    until("the next round", || failures(&store, UPKEEP).now.is_none());
    tape.arm(false);
    store.close().unwrap_err();
    drop(watch);
}

#[test]
fn after_a_panic_the_next_allocation_makes_the_file() {
    let root = tempfile::tempdir().unwrap();
    let tape = PanicAt::new(is_new_log_file);
    let watch = mq_log::watch(root.path(), Arc::clone(&tape) as _);
    let store = open(root.path(), settings());
    let put = || store.wait(store.put(&request("T", &[b'x'; 1_000]))).status;
    assert_eq!(put(), PutStatus::Ok);
    tape.arm(true);
    // A file is created half a file before it is needed. Puts that need it earlier are refused.
    while !store.failures().contains_key(ALLOCATE) {
        put();
    }
    let noted = failures(&store, ALLOCATE);
    let reason = noted.now.unwrap();
    assert!(reason.contains("the disk of the test"), "{reason}");
    tape.arm(false);
    until("the next file", || {
        put();
        store.log.starts().len() >= 2
    });
    until("a good round", || failures(&store, ALLOCATE).now.is_none());
    assert_eq!(put(), PutStatus::Ok);
    assert_eq!(store.refusal(), None);
    store.close().unwrap();
    drop(watch);
}
