//! A panic in a thread of the store is logged. Then the thread continues, or the store acknowledges
//! nothing more.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;
use std::{fmt, io};

use super::store_rig::{PATIENCE, settings};
use super::test_rig::request;
use crate::derive::arrivals::Arrivals;
use crate::settings::{QueueExt, Settings};
use crate::store::Store;
use crate::types::{AckOutcome, Put, PutRequest, PutStatus, Settled};
use mq_base::clock::SystemClock;
use mq_base::services::Failures;
use mq_format::message::RecordView;
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

/// The dispatcher makes index files.
fn is_new_index_file(path: &Path, operation: &Operation<'_>) -> bool {
    let mut folders = path.components();
    folders.any(|folder| folder.as_os_str() == "index")
        && matches!(operation, Operation::SyncDirectory)
}

#[test]
fn a_dispatcher_that_panics_stops_the_store() {
    let root = tempfile::tempdir().unwrap();
    let tape = PanicAt::new(is_new_index_file);
    let watch = mq_log::watch(root.path(), Arc::clone(&tape) as _);
    let store = open(root.path(), settings());
    tape.arm(true);
    let request = PutRequest {
        properties: b"KEYS\x01k",
        ..request("T", b"x")
    };
    store.wait(store.put(&request));
    let refusal = refusal(&store);
    assert!(
        refusal.contains("dispatch") && refusal.contains("the disk of the test"),
        "{refusal}"
    );
    drop(watch);
}

#[test]
fn an_arrival_listener_that_panics_stops_nothing() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path(), settings());
    let (arrived, arrivals) = mpsc::channel();
    let calls = AtomicU32::new(0);
    let listener = move |_: &Arrivals<'_>| {
        let before = calls.fetch_add(1, Ordering::SeqCst);
        assert!(before >= 2, "of the listener");
        arrived.send(before).unwrap();
    };
    store.on_arrival(Box::new(listener)).unwrap();
    for count in 1..=2 {
        store.wait(store.put(&request("T", b"x")));
        until("it is noted", || {
            let noted = store.failures().remove("arrival-listener");
            noted.is_some_and(|noted| noted.count == count)
        });
    }
    let noted = failures(&store, "arrival-listener").now.unwrap();
    assert!(noted.contains("of the listener"), "{noted}");
    store.wait(store.put(&request("T", b"x")));
    assert_eq!(arrivals.recv_timeout(PATIENCE), Ok(2));
    assert_eq!(store.max_offset("T", 1), 3, "the others can be read, too");
    assert_eq!(store.refusal(), None);
    store.close().unwrap();
}

#[test]
fn a_bitmap_source_that_panics_gives_no_bitmap() {
    let root = tempfile::tempdir().unwrap();
    let settings = Settings {
        queue_ext: QueueExt {
            enabled: true,
            ..QueueExt::default()
        },
        ..settings()
    };
    let store = open(root.path(), settings);
    let source = |_: &RecordView<'_>| panic!("of the source");
    store.set_bitmap_source(Box::new(source)).unwrap();
    store.wait(store.put(&request("T", b"x")));
    until("it can be read", || store.max_offset("T", 1) == 1);
    assert_eq!(failures(&store, "bitmap-source").count, 1);
    assert_eq!(store.refusal(), None);
    store.close().unwrap();
}

#[test]
fn a_settled_listener_that_panics_ends_no_flush_thread() {
    const PANICS: u64 = 5;
    let root = tempfile::tempdir().unwrap();
    let settings = Settings {
        sync_flush: true,
        ..settings()
    };
    let store = open(root.path(), settings);
    let (sender, told) = mpsc::channel();
    let listener = move |settled: &[Settled]| {
        assert!(settled[0].token >= PANICS, "of the listener");
        settled.iter().for_each(|one| sender.send(*one).unwrap());
    };
    store.on_settled(Box::new(listener)).unwrap();
    let park = |token| {
        let Put::Parked(_, ticket) = store.put(&request("T", b"x")) else {
            panic!("a put of SYNC_FLUSH waits");
        };
        store.park(ticket, token)
    };
    for token in 0..PANICS {
        assert_eq!(park(token), None, "nobody else flushes");
        until("it is noted", || {
            let noted = store.failures().remove("settled-listener");
            noted.is_some_and(|noted| noted.count == token + 1)
        });
    }
    assert_eq!(park(PANICS), None);
    let (token, outcome) = (PANICS, AckOutcome::Durable);
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Settled { token, outcome }));
    // The flush thread clears the failure after the listener has returned.
    until("the failure is over", || {
        failures(&store, "settled-listener").now.is_none()
    });
    assert_eq!(
        store.wait(store.put(&request("T", b"x"))).status,
        PutStatus::Ok
    );
    assert_eq!(store.refusal(), None);
    store.close().unwrap();
}

#[test]
fn a_second_listener_of_a_kind_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path(), settings());
    let register = || {
        [
            store.on_settled(Box::new(|_| ())),
            store.on_arrival(Box::new(|_| ())),
            store.on_delivery(Box::new(|_| ())),
            store.set_awaited(Box::new(|| true)),
            store.set_bitmap_source(Box::new(|_| None)),
        ]
    };
    assert!(register().iter().all(Result::is_ok));
    for again in register() {
        let error = again.unwrap_err().to_string();
        assert!(error.contains("one server may use it at a time"), "{error}");
    }
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
    store
        .on_delivery(Box::new(move |_| {
            let before = count.fetch_add(1, Ordering::SeqCst);
            assert_ne!(before, 0, "the first one fails");
        }))
        .unwrap();
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
