//! Puts that wait for their flush (SYNC_FLUSH), and the bytes they write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use mq_store::{AckOutcome, Put, PutStatus, Store};

use super::{BODY, PROPERTIES, TOPIC, message};

pub fn put_and_wait(store: &Store) {
    let result = store.wait(store.put(&message(TOPIC, &BODY, PROPERTIES)));
    assert_eq!(result.status, PutStatus::Ok, "{:?}", store.refusal());
}

/// Clients that put again as soon as their reply arrives, like those of a server. Returns
/// acknowledgements per second. The replying thread puts, so that no thread change is measured.
pub fn parked(store: &Arc<Store>, clients: usize, round: Duration) -> f64 {
    let (sender, ended) = mpsc::channel();
    let clients_of = Clients {
        store: Arc::clone(store),
        durable: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        _ended: sender,
    };
    let (shared, started) = (Arc::new(clients_of), Instant::now());
    (0..clients).for_each(|_| put_next(&shared));
    std::thread::sleep(round);
    let (count, took) = (shared.durable.load(Ordering::Relaxed), started.elapsed());
    shared.is_over.store(true, Ordering::Relaxed);
    drop(shared);
    // The last client drops the sender.
    let patience = Duration::from_secs(30);
    assert_eq!(
        ended.recv_timeout(patience),
        Err(mpsc::RecvTimeoutError::Disconnected)
    );
    count as f64 / took.as_secs_f64()
}

struct Clients {
    store: Arc<Store>,
    durable: AtomicU64,
    is_over: AtomicBool,
    _ended: Sender<()>,
}

fn put_next(clients: &Arc<Clients>) {
    let put = clients.store.put(&message(TOPIC, &BODY, PROPERTIES));
    let Put::Parked(_, ticket) = put else {
        panic!("it does not wait");
    };
    let next = Arc::clone(clients);
    let reply = move |outcome| {
        assert_eq!(outcome, AckOutcome::Durable);
        next.durable.fetch_add(1, Ordering::Relaxed);
        if !next.is_over.load(Ordering::Relaxed) {
            put_next(&next);
        }
    };
    clients.store.park(ticket, Box::new(reply));
}

/// Threads that wait for their own put; puts per second.
pub fn latched(store: &Arc<Store>, threads: usize, round: Duration) -> f64 {
    let started = Instant::now();
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let store = Arc::clone(store);
            std::thread::spawn(move || {
                let mut count = 0_u32;
                while started.elapsed() < round {
                    put_and_wait(&store);
                    count += 1;
                }
                count
            })
        })
        .collect();
    let counts = threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"));
    let count: u32 = counts.sum();
    f64::from(count) / started.elapsed().as_secs_f64()
}

pub struct Lone {
    pub p50_us: f64,
    pub per_s: f64,
    pub disk_bytes: u64,
}

/// One thread that waits for each flush.
pub fn lone(store: &Store, round: Duration) -> Lone {
    let (started, written, mut took) = (Instant::now(), written_bytes(), Vec::new());
    while started.elapsed() < round || took.is_empty() {
        let put = Instant::now();
        put_and_wait(store);
        took.push(put.elapsed());
    }
    let per_s = took.len() as f64 / started.elapsed().as_secs_f64();
    let disk_bytes = (written_bytes() - written) / took.len() as u64;
    took.sort_unstable();
    Lone {
        p50_us: took[took.len() / 2].as_secs_f64() * 1e6,
        per_s,
        disk_bytes,
    }
}

/// Waits until the blocks of the first file are prepared, so that this work is not measured.
pub fn settle() {
    let mut before = u64::MAX;
    for _ in 0..50 {
        let now = written_bytes();
        if now == before {
            return;
        }
        before = now;
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Bytes that this process has sent to the disk; 0 if the system does not say.
fn written_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let bytes = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    bytes
        .and_then(|bytes| bytes.trim().parse().ok())
        .unwrap_or(0)
}
