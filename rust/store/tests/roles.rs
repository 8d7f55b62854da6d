//! The role of a store: its threads, and what becomes of puts when it changes.

#![expect(clippy::unwrap_used, reason = "a test")]

mod common;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use common::request;
use mq_base::clock::{ManualClock, SystemClock};
use mq_log::testing::Gate;
use mq_log::{IoHook, Operation, Target, watch};
use mq_store::{
    AckOutcome, Cleaned, GetRequest, MessageFilter, Put, PutRequest, PutStatus, ReadMode, Role,
    Settings, Settled, Store, StoreError,
};

const PATIENCE: Duration = Duration::from_secs(60);
const OF_EVERY_ROLE: [&str; 2] = ["mq-dispatch", "mq-upkeep"];
const OF_A_SLAVE: [&str; 3] = ["mq-allocate", "mq-clean", "mq-flush"];

/// The tests see the threads of the whole process, so one runs at a time.
static TURN: Mutex<()> = Mutex::new(());

struct Rig {
    store: Arc<Store>,
    clock: Arc<ManualClock>,
    root: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

fn settings() -> Settings {
    Settings {
        commit_log_file_bytes: Some(1 << 20),
        consume_queue_file_bytes: Some(6_000),
        index_slots: Some(100),
        index_entries: Some(400),
        min_free_bytes: Some(0),
        ..Settings::default()
    }
}

/// A disk that flushes nothing while the gate is closed.
#[derive(Debug, Default)]
struct NoFlush(Gate);

impl IoHook for NoFlush {
    fn before(&self, _: Target<'_>, operation: &Operation<'_>) -> io::Result<u64> {
        if matches!(operation, Operation::Sync(..)) {
            self.0.pass();
        }
        Ok(0)
    }

    fn after(&self, _: Target<'_>, _: &Operation<'_>, _: u64) {}
}

fn rig(settings: Settings) -> Rig {
    let turn = TURN.lock();
    let root = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(1_700_000_000_000);
    Rig {
        store: Store::open(root.path(), settings, clock.clone(), true).unwrap(),
        clock,
        root,
        _turn: turn,
    }
}

/// Names of the process's threads that a store started.
fn threads() -> BTreeSet<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| {
        // A thread may end meanwhile.
        let name = std::fs::read_to_string(task.unwrap().path().join("comm")).ok()?;
        Some(name.trim().to_owned())
    });
    names.filter(|name| name.starts_with("mq-")).collect()
}

/// Waits until exactly these threads run: a thread names itself shortly after its start.
fn wait_for_threads(expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
    let until = Instant::now() + PATIENCE;
    while threads() != expected {
        assert!(Instant::now() < until, "{:?}, not {expected:?}", threads());
        std::thread::yield_now();
    }
}

fn threads_of(role: Role) -> Vec<&'static str> {
    let mut names = OF_EVERY_ROLE.to_vec();
    if role != Role::ReadOnly {
        names.extend(OF_A_SLAVE);
    }
    if role == Role::Master {
        names.extend(["mq-deadlines", "mq-delay"]);
    }
    names
}

impl Rig {
    fn put(&self, body: &[u8]) -> (PutStatus, i64) {
        let put = self.store.put(&request("T", body));
        let result = self.store.wait(put);
        (result.status, result.queue_offset)
    }

    /// Waits until a queue has this maximum, and counts its messages.
    fn read(&self, topic: &str, max_offset: i64) -> i32 {
        let until = Instant::now() + PATIENCE;
        while self.store.max_offset(topic, 0) < max_offset {
            assert!(Instant::now() < until, "{topic} stays short");
            std::thread::yield_now();
        }
        let request = GetRequest {
            topic,
            queue_id: 0,
            offset: 0,
            max_count: 32,
            filter: &MessageFilter::All,
            mode: ReadMode::Wait,
        };
        let got = self.store.get(&request, &mut Vec::new()).unwrap();
        got.message_count
    }
}

#[test]
fn each_role_runs_its_own_threads() {
    let rig = rig(settings());
    assert_eq!(rig.store.role(), Role::Master);
    wait_for_threads(&threads_of(Role::Master));
    let all = [Role::Master, Role::Slave, Role::ReadOnly];
    let changes = [0, 1, 2, 1, 0, 2, 0].map(|at| all[at]);
    for role in changes {
        rig.store.set_role(role).unwrap();
        assert_eq!(rig.store.role(), role);
        wait_for_threads(&threads_of(role));
    }
    rig.store.close().unwrap();
    wait_for_threads(&[]);
    let error = rig.store.set_role(Role::Slave).unwrap_err();
    assert!(matches!(error, StoreError::Forbidden(_)), "{error}");
}

#[test]
fn a_store_opens_in_the_role_of_its_settings() {
    for role in [Role::Slave, Role::ReadOnly] {
        for sync_flush in [false, true] {
            let rig = rig(Settings {
                role,
                sync_flush,
                ..settings()
            });
            wait_for_threads(&threads_of(role));
            assert_eq!(rig.put(b"x"), (PutStatus::ServiceNotAvailable, -1));
            assert_eq!(rig.store.max_physical_offset(), 0);
            rig.store.close().unwrap();
        }
    }
}

#[test]
fn a_slave_refuses_puts_and_loses_nothing() {
    for sync_flush in [false, true] {
        let rig = rig(Settings {
            sync_flush,
            ..settings()
        });
        assert_eq!(rig.put(b"stored"), (PutStatus::Ok, 0));
        rig.store.set_role(Role::Slave).unwrap();
        let end = rig.store.max_physical_offset();
        assert_eq!(rig.put(b"refused"), (PutStatus::ServiceNotAvailable, -1));
        let put = rig.store.try_put(&request("T", b"refused")).unwrap();
        assert_eq!(rig.store.wait(put).status, PutStatus::ServiceNotAvailable);
        let refusal = rig.store.refusal().unwrap();
        assert!(refusal.contains("slave"), "{refusal}");
        assert_eq!(rig.store.max_physical_offset(), end);
        assert_eq!(rig.read("T", 1), 1);
        assert!(rig.store.commit("g", "T", 0, 1, usize::MAX));
        rig.store.close().unwrap();
        let again = open(rig.root.path(), &rig.clock);
        assert_eq!(
            (again.max_offset("T", 0), again.committed("g", "T", 0)),
            (1, Some(1))
        );
    }
}

fn open(root: &Path, clock: &Arc<ManualClock>) -> Arc<Store> {
    Store::open(root, settings(), clock.clone(), false).unwrap()
}

#[test]
fn a_put_that_waits_for_its_flush_is_settled_by_the_change() {
    let rig = rig(Settings {
        sync_flush: true,
        ..settings()
    });
    let (settled, outcomes) = mpsc::channel();
    let settled = Mutex::new(settled);
    let listener = move |all: &[Settled]| {
        all.iter()
            .for_each(|one| settled.lock().send(*one).unwrap())
    };
    rig.store.on_settled(Box::new(listener)).unwrap();
    let disk = Arc::<NoFlush>::default();
    let _watch = watch(rig.root.path(), Arc::clone(&disk) as Arc<dyn IoHook>);
    disk.0.close();
    let Put::Parked(_, ticket) = rig.store.put(&request("T", b"waits")) else {
        panic!("the put does not wait");
    };
    assert_eq!(rig.store.park(ticket, 7), None);
    let store = Arc::clone(&rig.store);
    let change = std::thread::spawn(move || store.set_role(Role::Slave));
    let until = Instant::now() + PATIENCE;
    while disk.0.waiting() == 0 {
        assert!(Instant::now() < until, "nothing is flushed");
        std::thread::yield_now();
    }
    disk.0.open();
    change.join().unwrap().unwrap();
    let outcome = AckOutcome::Durable;
    assert_eq!(
        outcomes.recv_timeout(PATIENCE),
        Ok(Settled { token: 7, outcome })
    );
}

#[test]
fn a_slave_that_leads_again_continues_the_numbering() {
    let rig = rig(settings());
    for body in [b"0", b"1", b"2"] {
        rig.put(body);
    }
    for (role, next) in [(Role::Slave, 3), (Role::ReadOnly, 5), (Role::Slave, 7)] {
        rig.store.set_role(role).unwrap();
        assert_eq!(rig.put(b"no").0, PutStatus::ServiceNotAvailable);
        rig.store.set_role(Role::Master).unwrap();
        assert_eq!(rig.put(b"yes"), (PutStatus::Ok, next));
        assert_eq!(rig.put(b"yes"), (PutStatus::Ok, next + 1));
    }
    assert_eq!(rig.read("T", 9), 9);
    rig.store.set_role(Role::Slave).unwrap();
    rig.store.close().unwrap();
    let again = open(rig.root.path(), &rig.clock);
    let put = again.put(&request("T", b"after a restart"));
    assert_eq!(again.wait(put).queue_offset, 9);
}

#[test]
fn a_slave_delivers_delayed_messages_when_it_leads() {
    let rig = rig(settings());
    let delayed = PutRequest {
        delay_level: 2,
        ..request("T", b"later")
    };
    let put = rig.store.put(&delayed);
    assert_eq!(rig.store.wait(put).status, PutStatus::Ok);
    rig.store.set_role(Role::Slave).unwrap();
    rig.clock.advance(60_000);
    wait_for_threads(&threads_of(Role::Slave));
    assert_eq!(rig.store.max_offset("T", 0), 0);
    rig.store.set_role(Role::Master).unwrap();
    assert_eq!(rig.read("T", 1), 1);
}

#[test]
fn a_read_only_store_deletes_nothing() {
    let rig = rig(settings());
    // The first file of the log expires before the clock's new time.
    let expired_ms = SystemClock::shared().wall_ms() + 80 * 3_600_000;
    for _ in 0..3 {
        assert_eq!(rig.put(&[b'x'; 500_000]).0, PutStatus::Ok);
    }
    assert!(rig.read("T", 3) > 0);
    rig.store.flush().unwrap();
    rig.clock.set_wall(expired_ms);
    rig.store.set_role(Role::ReadOnly).unwrap();
    let error = rig.store.delete_topic("T").unwrap_err();
    assert!(matches!(error, StoreError::Forbidden(_)), "{error}");
    assert_eq!(rig.store.clean(), Cleaned::default());
    assert_eq!(rig.store.clean_expired_queues(), Cleaned::default());
    assert_eq!(rig.store.min_offset("T", 0), 0);
    assert!(rig.read("T", 3) > 0);
    rig.store.set_role(Role::Master).unwrap();
    assert_eq!(rig.store.clean().log_files, 1);
    rig.store.delete_topic("T").unwrap();
    assert_eq!(rig.store.min_offset("T", 0), 3);
}
