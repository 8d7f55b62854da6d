//! Puts that wait for their flush (SYNC_FLUSH), and the bytes they write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use mq_store::{AckOutcome, Put, PutStatus, Settled, Store};

use super::{BODY, PROPERTIES, TOPIC, message};

pub fn put_and_wait(store: &Store) {
    let result = store.wait(store.put(&message(TOPIC, &BODY, PROPERTIES)));
    assert_eq!(result.status, PutStatus::Ok, "{:?}", store.refusal());
}

/// Clients that put again as soon as their reply arrives, like those of a server. Returns
/// acknowledgements per second. The replying thread puts, so that no thread change is measured.
pub fn parked(store: &Arc<Store>, clients: usize, round: Duration) -> f64 {
    let (sender, ended) = mpsc::channel();
    let shared = Arc::new(Clients {
        durable: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        ended: sender,
    });
    let (replied, putting) = (Arc::clone(&shared), Arc::downgrade(store));
    let listener = move |settled: &[Settled]| {
        let store = putting.upgrade().expect("the store is open");
        for Settled { outcome, .. } in settled {
            if replied.goes_on(*outcome) {
                replied.put(&store);
            }
        }
    };
    store.on_settled(Box::new(listener)).expect("the first");
    let started = Instant::now();
    (0..clients).for_each(|_| shared.put(store));
    std::thread::sleep(round);
    let (count, took) = (shared.durable.load(Ordering::Relaxed), started.elapsed());
    shared.is_over.store(true, Ordering::Relaxed);
    let patience = Duration::from_secs(30);
    (0..clients).for_each(|_| ended.recv_timeout(patience).expect("its last reply"));
    count as f64 / took.as_secs_f64()
}

struct Clients {
    durable: AtomicU64,
    is_over: AtomicBool,
    /// Clients whose last put was answered.
    ended: Sender<()>,
}

impl Clients {
    /// One client puts, and again while its put is flushed already.
    fn put(&self, store: &Store) {
        loop {
            let put = store.put(&message(TOPIC, &BODY, PROPERTIES));
            let Put::Parked(_, ticket) = put else {
                panic!("it does not wait");
            };
            match store.park(ticket, 0) {
                Some(outcome) if self.goes_on(outcome) => {}
                _ => return,
            }
        }
    }

    /// Counts a reply; whether its client puts again.
    fn goes_on(&self, outcome: AckOutcome) -> bool {
        assert_eq!(outcome, AckOutcome::Durable);
        self.durable.fetch_add(1, Ordering::Relaxed);
        let is_over = self.is_over.load(Ordering::Relaxed);
        if is_over {
            self.ended.send(()).expect("it is waited for");
        }
        !is_over
    }
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
pub fn wait_until_flushed() {
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
