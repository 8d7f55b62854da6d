//! Delayed messages: accuracy of the delivery while many wait, and throughput when many are due.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use mq_store::{PutRequest, Settings, Store};
use serde_json::{Value, json};

use crate::common::{directory, message, open, put, settings, sized};

const PROBES: &str = "TopicProbe";
const CROWD: &str = "TopicCrowd";
/// One second for the probes. The other messages wait long enough to be stored before the probes.
const LEVELS: &str = "1s 15s";
const PROBE_DELAY: Duration = Duration::from_secs(1);
const PROBE_LEVEL: i32 = 1;
const CROWD_LEVEL: i32 = 2;

pub fn figures() -> Value {
    let crowd = i64::try_from(sized(1_000_000, 1_000)).expect("a count");
    let root = directory();
    let settings = Settings {
        delay_levels: if crowd < 10_000 { "1s 3s" } else { LEVELS }.into(),
        ..settings(1 << 30)
    };
    let store = open(root.path(), settings);
    let (probes, crowd_ends) = arrivals(&store, crowd);
    for _ in 0..crowd {
        put(&store, &delayed(CROWD, CROWD_LEVEL));
    }
    let errors = probe(&store, &probes, sized(50, 3));
    let due = crowd_ends
        .recv_timeout(Duration::from_secs(60))
        .expect("the first is delivered");
    let end = crowd_ends
        .recv_timeout(Duration::from_secs(60))
        .expect("all are delivered");
    store.close().expect("a clean close");
    json!({
        "pending": crowd,
        "error_ms_max": errors.iter().max().map(Duration::as_secs_f64).unwrap_or(0.0) * 1e3,
        "delivered_per_s": (crowd as f64 / (end - due).as_secs_f64()).round(),
    })
}

/// Arrival times of each probe, and of the first and the last message of the crowd.
fn arrivals(store: &Store, crowd: i64) -> (mpsc::Receiver<Instant>, mpsc::Receiver<Instant>) {
    let ((probe, probes), (end, ends)) = (mpsc::channel(), mpsc::channel());
    let senders = parking_lot::Mutex::new((probe, end));
    store
        .on_arrival(Box::new(move |arrivals| {
            for arrival in arrivals.iter() {
                let is_end = arrival.max_offset == 1 || arrival.max_offset == crowd;
                if arrival.topic == PROBES {
                    senders.lock().0.send(Instant::now()).expect("heard");
                } else if arrival.topic == CROWD && is_end {
                    senders.lock().1.send(Instant::now()).expect("heard");
                }
            }
        }))
        .expect("the first");
    (probes, ends)
}

fn delayed(topic: &str, level: i32) -> PutRequest<'_> {
    let mut request = message(topic, &[b'x'; 64], b"");
    request.delay_level = level;
    request
}

/// The delay of each probe beyond its due time, while the crowd waits.
fn probe(store: &Arc<Store>, arrived: &mpsc::Receiver<Instant>, count: u64) -> Vec<Duration> {
    let mut due = Vec::new();
    for _ in 0..count {
        due.push(Instant::now() + PROBE_DELAY);
        put(store, &delayed(PROBES, PROBE_LEVEL));
        std::thread::sleep(Duration::from_millis(100));
    }
    due.into_iter()
        .map(|due| {
            let at = arrived
                .recv_timeout(Duration::from_secs(30))
                .expect("delivered");
            at.max(due) - at.min(due)
        })
        .collect()
}
