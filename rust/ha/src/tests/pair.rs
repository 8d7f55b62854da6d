//! A master and slaves with stores and sockets.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::protocol::{MasterTiming, SlaveTiming};
use crate::{HaMaster, HaSlave, MasterSettings, SlaveSettings, SlaveState};
use mq_base::clock::SystemClock;
use mq_store::testing::{replicated_offset, request};
use mq_store::{PutStatus, Role, Settings, SlaveWait, Store};

const PATIENCE: Duration = Duration::from_secs(30);
pub(super) const FILE: u64 = 64 << 10;

pub(super) fn open(root: &Path, role: Role, sync_flush: bool) -> Arc<Store> {
    let settings = Settings {
        role,
        sync_flush,
        // Only a test that waits for a flush causes one.
        flush_interval_ms: 60_000,
        commit_log_file_bytes: Some(FILE),
        consume_queue_file_bytes: Some(6_000),
        index_slots: Some(100),
        index_entries: Some(400),
        min_free_bytes: Some(0),
        ..Settings::default()
    };
    Store::open(root, settings, SystemClock::shared(), true).unwrap()
}

pub(super) struct Master {
    pub(super) root: tempfile::TempDir,
    pub(super) store: Arc<Store>,
    pub(super) ha: HaMaster,
    pub(super) address: String,
}

impl Master {
    pub(super) fn new(sync_flush: bool) -> Self {
        Self::of(sync_flush, MasterSettings::default())
    }

    pub(super) fn with(settings: MasterSettings) -> Self {
        Self::of(false, settings)
    }

    pub(super) fn of(sync_flush: bool, settings: MasterSettings) -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path(), Role::Master, sync_flush);
        let ha = HaMaster::new(Arc::clone(&store), settings);
        let address = format!("127.0.0.1:{}", ha.start().unwrap());
        Self {
            root,
            store,
            ha,
            address,
        }
    }

    pub(super) fn put(&self, count: usize, body: &[u8]) -> Vec<PutStatus> {
        let put = |_| {
            let put = self.store.put(&request("T", body));
            self.store.wait(put).status
        };
        (0..count).map(put).collect()
    }

    pub(super) fn wait_for_slaves(&self, slaves: usize) {
        let is_there = || {
            let rows = self.ha.slaves();
            rows.iter().filter(|row| row.acked.is_some()).count() == slaves
        };
        wait_until(is_there, || format!("{:?}", self.ha.slaves()));
    }

    pub(super) fn sync(&self, slaves: usize, timeout_ms: i64) {
        let wait = SlaveWait {
            slaves,
            timeout_ms,
            fall_behind_max_bytes: 256 << 20,
        };
        self.store.set_slave_wait(wait).unwrap();
    }
}

pub(super) struct Slave {
    pub(super) root: tempfile::TempDir,
    pub(super) store: Arc<Store>,
    pub(super) ha: HaSlave,
}

pub(super) fn settings() -> SlaveSettings {
    SlaveSettings {
        retry_interval: Duration::from_millis(50),
        ..SlaveSettings::default()
    }
}

impl Slave {
    pub(super) fn of(master: &Master) -> Self {
        let root = tempfile::tempdir().unwrap();
        let slave = Self::at(root, false);
        slave.ha.set_master(Some(master.address.clone()), None);
        slave
    }

    pub(super) fn at(root: tempfile::TempDir, sync_flush: bool) -> Self {
        Self::with(root, sync_flush, settings())
    }

    pub(super) fn with(root: tempfile::TempDir, sync_flush: bool, settings: SlaveSettings) -> Self {
        let store = open(root.path(), Role::Slave, sync_flush);
        let ha = HaSlave::new(Arc::clone(&store), settings);
        ha.start().unwrap();
        Self { root, store, ha }
    }

    pub(super) fn wait_for(&self, end: i64) {
        let has_it = || self.store.max_physical_offset() >= end;
        wait_until(has_it, || format!("{end}: {:?}", self.ha.status()));
    }

    pub(super) fn wait_for_state(&self, state: SlaveState) {
        let is_it = || self.ha.status().state == state;
        wait_until(is_it, || format!("{state:?}: {:?}", self.ha.status()));
    }
}

pub(super) fn wait_until(is_so: impl Fn() -> bool, what: impl Fn() -> String) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{}", what());
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn log_of(store: &Store) -> (u64, Vec<u8>) {
    let (start, end) = store.raw_range();
    let mut bytes = vec![0; (end - start) as usize];
    let mut at = 0;
    while at < bytes.len() {
        at += store.read_raw(start + at as u64, &mut bytes[at..]).unwrap();
    }
    (start, bytes)
}

pub(super) fn assert_equal(master: &Master, slave: &Slave) {
    let queue = |store: &Store| store.entries("T", 1, store.min_offset("T", 1), 1 << 20);
    let is_whole = || queue(&master.store).len() as i64 == master.store.max_offset("T", 1);
    wait_until(is_whole, || "the master's queue has holes".into());
    slave.wait_for(master.store.max_physical_offset());
    assert!(
        log_of(&master.store) == log_of(&slave.store),
        "the logs differ"
    );
    let dispatched = || slave.store.max_offset("T", 1) == master.store.max_offset("T", 1);
    wait_until(dispatched, || "queues differ".into());
    assert_eq!(queue(&master.store), queue(&slave.store));
}

#[test]
fn a_slave_has_the_masters_log_and_queues_byte_for_byte() {
    for sync_flush in [false, true] {
        let master = Master::new(sync_flush);
        master.put(40, &[b'a'; 1_000]);
        let root = tempfile::tempdir().unwrap();
        let slave = Slave::at(root, sync_flush);
        slave.ha.set_master(Some(master.address.clone()), Some(0));
        master.put(300, &[b'b'; 1_000]);
        assert_equal(&master, &slave);
        let row = &master.ha.slaves()[0];
        assert!(row.sent == Some(master.store.raw_range().1) && row.bytes_sent > 300_000);
        wait_until(|| master.ha.slaves()[0].lag_bytes == 0, || "it lags".into());
        let put = slave.store.put(&request("T", b"x"));
        assert_eq!(slave.store.wait(put).status, PutStatus::ServiceNotAvailable);
        slave.ha.stop();
        // A clean stop: the next start does not scan the log, and follows again.
        slave.store.close().unwrap();
        let Slave { root, store, ha } = slave;
        drop((store, ha));
        assert!(!root.path().join("abort").exists());
        master.put(100, &[b'c'; 1_000]);
        let slave = Slave::at(root, sync_flush);
        slave.ha.set_master(Some(master.address.clone()), None);
        assert_equal(&master, &slave);
    }
}

#[test]
fn an_empty_slave_begins_at_the_last_file_or_at_the_first() {
    let master = Master::new(false);
    master.put(200, &[b'a'; 1_000]);
    let (_, end) = master.store.raw_range();
    let last = Slave::of(&master);
    last.wait_for(end.cast_signed());
    assert_eq!(last.store.raw_range().0, end - end % FILE);
    let ends = (last.store.min_offset("T", 1), last.store.max_offset("T", 1));
    wait_until(
        || last.store.max_offset("T", 1) == 200,
        || format!("{ends:?}"),
    );
    assert!(last.store.min_offset("T", 1) > 100);
    for first in [0, FILE] {
        let full = Slave::at(tempfile::tempdir().unwrap(), false);
        full.ha
            .set_master(Some(master.address.clone()), Some(first));
        full.wait_for(end.cast_signed());
        assert_eq!(full.store.raw_range().0, first);
        let (_, bytes) = log_of(&master.store);
        assert!(log_of(&full.store).1 == bytes[first as usize..]);
    }
}

#[test]
fn a_slave_whose_bytes_the_master_deleted_goes_on_at_its_start() {
    for sync_flush in [false, true] {
        let master = Master::new(sync_flush);
        master.put(20, &[b'a'; 1_000]);
        let slave = Slave::at(tempfile::tempdir().unwrap(), sync_flush);
        slave.ha.set_master(Some(master.address.clone()), Some(0));
        slave.wait_for(master.store.max_physical_offset());
        slave.ha.set_master(None, None);
        master.put(300, &[b'b'; 1_000]);
        // A master whose log begins at its fourth file.
        let late = Slave::at(tempfile::tempdir().unwrap(), sync_flush);
        late.ha
            .set_master(Some(master.address.clone()), Some(3 * FILE));
        let end = master.store.max_physical_offset();
        late.wait_for(end);
        late.ha.stop();
        let ha = HaMaster::new(Arc::clone(&late.store), MasterSettings::default());
        let address = format!("127.0.0.1:{}", ha.start().unwrap());
        slave.ha.set_master(Some(address), None);
        wait_until(|| ha.slaves().len() == 1, || "it joins".into());
        assert_eq!(slave.store.max_offset("T", 1), 20);
        slave.ha.note_master_range(3 * FILE, end.cast_unsigned());
        slave.wait_for(end);
        let (_, whole) = log_of(&master.store);
        let (start, copied) = log_of(&slave.store);
        let gap = 3 * FILE as usize;
        assert!(start == 0 && copied[gap..] == whole[gap..]);
        wait_until(|| slave.store.max_offset("T", 1) == 320, || "queue".into());
        let kept = late.store.min_offset("T", 1);
        assert!(kept > 20);
        let is_readable = |store: &Store| {
            let entries = |from, count| store.entries("T", 1, from, count);
            entries(0, 20) == master.store.entries("T", 1, 0, 20)
                && entries(kept, 320) == master.store.entries("T", 1, kept, 320)
        };
        assert!(is_readable(&slave.store));
        slave.ha.stop();
        slave.store.close().unwrap();
        let Slave { root, store, ha } = slave;
        drop((store, ha));
        let slave = Slave::at(root, sync_flush);
        assert_eq!(slave.store.max_physical_offset(), end);
        assert!(is_readable(&slave.store));
    }
}

#[test]
fn sends_of_a_sync_master_wait_for_as_many_slaves_as_asked() {
    let master = Master::new(false);
    master.sync(1, 200);
    assert_eq!(master.put(1, b"x"), [PutStatus::SlaveNotAvailable]);
    let one = Slave::of(&master);
    master.wait_for_slaves(1);
    assert_eq!(master.put(50, b"x"), [PutStatus::Ok; 50]);
    assert!(one.store.raw_range().1 == master.store.raw_range().1);
    master.sync(2, 10_000);
    assert_eq!(master.put(1, b"x"), [PutStatus::SlaveNotAvailable]);
    let two = Slave::of(&master);
    master.wait_for_slaves(2);
    assert_eq!(master.put(20, b"x"), [PutStatus::Ok; 20]);
    assert_eq!(two.store.raw_range().1, master.store.raw_range().1);
    two.ha.stop();
    master.wait_for_slaves(1);
    assert_eq!(master.put(1, b"x"), [PutStatus::SlaveNotAvailable]);
    master.sync(0, 200);
    assert_eq!(master.put(1, b"x"), [PutStatus::Ok]);
}

/// The bytes that a slave sends to say that it has everything below an offset.
fn report(connection: &TcpStream, offset: u64) {
    let mut connection = connection;
    connection.write_all(&offset.to_be_bytes()).unwrap();
}

#[test]
fn a_slave_that_connects_again_counts_once() {
    let master = Master::new(false);
    master.put(1, b"x"); // a report of 0 asks for the last file
    let end = || master.store.raw_range().1;
    let lost = TcpStream::connect(&master.address).unwrap();
    report(&lost, end());
    master.wait_for_slaves(1);
    master.sync(1, 100);
    assert_eq!(master.put(1, b"x"), [PutStatus::FlushSlaveTimeout]);
    wait_until(
        || master.ha.slaves()[0].sent == Some(end()),
        || "sent".into(),
    );
    report(&lost, end());
    wait_until(|| master.ha.slaves()[0].lag_bytes == 0, || "acked".into());
    master.sync(2, 100);
    let reached = || replicated_offset(&master.store);
    let again = TcpStream::connect(&master.address).unwrap();
    report(&again, end());
    master.wait_for_slaves(2);
    assert!(reached() < end(), "one slave has it, on two connections");
    report(&lost, end()); // the first connection lives: they are two slaves
    wait_until(|| reached() == end(), || "both have it".into());
}

#[test]
fn with_sync_flush_a_send_waits_for_flush_and_slave() {
    let master = Master::new(true);
    master.sync(1, 10_000);
    assert_eq!(master.put(1, b"x"), [PutStatus::SlaveNotAvailable]);
    let slave = Slave::at(tempfile::tempdir().unwrap(), true);
    slave.ha.set_master(Some(master.address.clone()), None);
    master.wait_for_slaves(1);
    assert_eq!(master.put(30, b"x"), [PutStatus::Ok; 30]);
    assert_equal(&master, &slave);
}

#[test]
fn acknowledged_bytes_are_flushed_if_asked() {
    let master = Master::new(false);
    let flushing = SlaveSettings {
        ack_flushed: true,
        ..settings()
    };
    let slave = Slave::with(tempfile::tempdir().unwrap(), false, flushing);
    slave.ha.set_master(Some(master.address.clone()), None);
    master.wait_for_slaves(1);
    master.sync(1, 60_000);
    for _ in 0..20 {
        assert_eq!(master.put(1, b"x"), [PutStatus::Ok]);
        let figures = slave.store.runtime();
        assert_eq!(figures["remainHowManyDataToFlush"], "0 B");
    }
}

#[test]
fn a_slave_that_takes_nothing_makes_sends_late() {
    let master = Master::new(false);
    let stuck = TcpStream::connect(&master.address).unwrap();
    (&stuck).write_all(&[0; 8]).unwrap();
    master.wait_for_slaves(1);
    master.sync(1, 50);
    assert_eq!(master.put(1, b"x"), [PutStatus::FlushSlaveTimeout]);
    drop(stuck);
    master.wait_for_slaves(0);
    assert_eq!(master.put(1, b"x"), [PutStatus::SlaveNotAvailable]);
}

#[test]
fn a_slave_whose_log_differs_stops_and_appends_nothing() {
    let (one, other) = (Master::new(false), Master::new(false));
    one.put(20, b"one");
    other.put(30, b"two");
    let slave = Slave::of(&one);
    slave.wait_for(one.store.max_physical_offset());
    let end = slave.store.raw_range().1;
    slave.ha.set_master(Some(other.address.clone()), None);
    slave.wait_for_state(SlaveState::Diverged);
    let status = slave.ha.status();
    assert!(status.diverged_at.is_some_and(|at| at < end), "{status:?}");
    assert_eq!(slave.store.raw_range().1, end);
    slave.ha.set_master(Some(one.address.clone()), None);
    one.put(5, b"one");
    assert_equal(&one, &slave);
}

#[test]
fn a_slave_that_is_ahead_says_so_and_keeps_its_log() {
    let master = Master::new(false);
    master.put(20, b"x");
    let slave = Slave::of(&master);
    slave.wait_for(master.store.max_physical_offset());
    slave.ha.stop();
    let end = slave.store.raw_range().1;
    // The master lost its tail: here, a copy of its start.
    let behind = tempfile::tempdir().unwrap();
    let store = open(behind.path(), Role::Slave, false);
    let (_, bytes) = log_of(&master.store);
    let records: usize = bytes.len() / 20 * 15;
    store.append_raw(0, &bytes[..records], Some(1)).unwrap();
    let ha = HaMaster::new(Arc::clone(&store), MasterSettings::default());
    let address = format!("127.0.0.1:{}", ha.start().unwrap());
    slave.ha.start().unwrap();
    slave.ha.set_master(Some(address), None);
    slave.wait_for_state(SlaveState::Ahead);
    assert_eq!(slave.store.raw_range().1, end);
    assert_eq!(slave.ha.status().master_offset, Some(records as u64));
}

#[test]
fn a_slave_survives_a_master_that_comes_and_goes() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let slave = Slave::at(tempfile::tempdir().unwrap(), false);
    let address = format!("127.0.0.1:{port}");
    slave.ha.set_master(Some(address.clone()), None);
    let failed = || !slave.ha.status().reason.is_empty();
    wait_until(failed, || "it connects".into());
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path(), Role::Master, false);
    for round in 1..=3 {
        let settings = MasterSettings {
            port,
            ..MasterSettings::default()
        };
        let ha = HaMaster::new(Arc::clone(&store), settings);
        ha.start().unwrap();
        let put = store.put(&request("T", b"x"));
        assert_eq!(store.wait(put).status, PutStatus::Ok);
        slave.wait_for(store.max_physical_offset());
        ha.stop();
        assert_eq!(slave.ha.status().connects, round);
    }
}

#[test]
fn heartbeats_keep_an_idle_pair_and_silence_ends_it() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path(), Role::Master, false);
    let timing = MasterTiming {
        heartbeat_ms: 50,
        housekeeping_ms: 1_000,
        ..MasterTiming::default()
    };
    let settings = MasterSettings {
        timing,
        ..MasterSettings::default()
    };
    let ha = HaMaster::new(Arc::clone(&store), settings);
    let address = format!("127.0.0.1:{}", ha.start().unwrap());
    let mute = TcpStream::connect(&address).unwrap();
    wait_until(|| ha.slaves().len() == 1, || "it joins".into());
    wait_until(|| ha.slaves().is_empty(), || "it stays".into());
    drop(mute);
    let slave = Slave::at(tempfile::tempdir().unwrap(), false);
    slave.ha.stop();
    let settings = SlaveSettings {
        timing: SlaveTiming {
            heartbeat_ms: 50,
            housekeeping_ms: 1_000,
        },
        ..settings_of_tests()
    };
    let follows = HaSlave::new(Arc::clone(&slave.store), settings);
    follows.start().unwrap();
    follows.set_master(Some(address), None);
    wait_until(|| ha.slaves().len() == 1, || "it joins".into());
    // Thirty heartbeats of 12 bytes take longer than the time after which silence ends it.
    let bytes = || follows.status().bytes_received;
    let first = bytes();
    wait_until(|| bytes() >= first + 30 * 12, || format!("{}", bytes()));
    assert_eq!((follows.status().connects, ha.slaves().len()), (1, 1));
}

fn settings_of_tests() -> SlaveSettings {
    settings()
}

#[test]
fn a_promoted_slave_goes_on_where_the_master_ended() {
    let master = Master::new(false);
    master.put(10, b"x");
    let slave = Slave::of(&master);
    assert_equal(&master, &slave);
    slave.ha.stop();
    master.ha.stop();
    let progress = b"{\"offsetTable\":{1:0}}";
    slave
        .store
        .save_state("delayOffset.json", progress)
        .unwrap();
    slave.store.set_role(Role::Master).unwrap();
    let put = slave.store.put(&request("T", b"y"));
    let result = slave.store.wait(put);
    assert_eq!((result.status, result.queue_offset), (PutStatus::Ok, 10));
    assert!(slave.root.path().exists() && master.root.path().exists());
}
