//! Long polling: requests that wait for a message, woken by its arrival or by their deadline.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::core::Core;
use super::handoff::Job;
use super::limits::{HOLD_SWEEP_TICKS, HOLD_TICK_MS, HOLDS_MAX};
use super::pull::{self, PullTask};
use crate::store::{Arrival, TagFilter};

/// Shards, each with its own lock; a power of two.
const SHARDS: usize = 16;

/// What a held request waits for.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Topic of the queue.
    pub topic: Arc<str>,
    /// The queue.
    pub queue_id: i32,
    /// A message at this offset or above.
    pub offset: i64,
    /// Of these tags.
    pub filter: TagFilter,
    /// Monotonic milliseconds at which it is answered anyway.
    pub deadline_ms: i64,
}

/// Who sleeps. Kept small: a hundred thousand of them are usual.
enum Sleeper {
    Pull(Box<PullTask>),
    Job(Box<Job>),
}

struct Held {
    wish: Wish,
    sleeper: Sleeper,
}

impl Held {
    /// Its client is gone.
    fn is_gone(&self) -> bool {
        match &self.sleeper {
            Sleeper::Pull(task) => task.is_gone(),
            Sleeper::Job(job) => job.peer.is_closing(),
        }
    }
}

#[derive(Default)]
struct Shard {
    /// By hash of topic and queue, so that an arrival needs no owned key; the wish decides.
    queues: HashMap<u64, Vec<Held>>,
    /// No deadline of this shard is before this one.
    earliest_ms: i64,
}

/// All held requests.
#[derive(Default)]
pub struct Holds {
    shards: [Mutex<Shard>; SHARDS],
    count: AtomicUsize,
    /// Nothing is held any more: the server stops.
    released: AtomicBool,
    /// Where woken pulls run; set when the server starts.
    runtime: Mutex<Option<Handle>>,
}

impl Holds {
    /// Holds a pull until its wish is fulfilled.
    pub(super) fn hold_pull(&self, core: &Arc<Core>, wish: Wish, task: PullTask) {
        self.hold(
            core,
            Held {
                wish,
                sleeper: Sleeper::Pull(Box::new(task)),
            },
        );
    }

    /// Holds a request that Python parked.
    pub(super) fn hold_job(&self, core: &Arc<Core>, wish: Wish, job: Job) {
        self.hold(
            core,
            Held {
                wish,
                sleeper: Sleeper::Job(Box::new(job)),
            },
        );
    }

    fn hold(&self, core: &Arc<Core>, held: Held) {
        if self.released.load(Ordering::Acquire) || self.len() >= HOLDS_MAX {
            return self.wake(core, vec![held]);
        }
        core.counters.holds.one();
        let Wish {
            topic,
            queue_id,
            offset,
            ..
        } = held.wish.clone();
        let key = key(&topic, queue_id);
        self.count.fetch_add(1, Ordering::AcqRel);
        self.shard(key).lock().insert(key, held);
        // A message may have arrived after the request found none and before it was held. One
        // of the two sides sees the other: here the hold comes before the look at the queue's
        // end, there the queue's end before the look at the holds.
        fence(Ordering::SeqCst);
        let store = core.store.as_ref();
        let max_offset = store.map_or(0, |store| store.max_offset(&topic, queue_id));
        if max_offset > offset {
            self.wake_queue(core, key, |wish| {
                wish.queue_id == queue_id && *wish.topic == *topic && max_offset > wish.offset
            });
        }
        if self.released.load(Ordering::Acquire) {
            self.release(core);
        }
    }

    /// A message became readable: wakes those who wait for it. Called by the store's dispatch
    /// thread, so it only moves them elsewhere.
    pub(super) fn arrived(&self, core: &Arc<Core>, arrival: &Arrival<'_>) {
        fence(Ordering::SeqCst); // see `hold`
        if self.is_empty() {
            return;
        }
        self.wake_queue(core, key(arrival.topic, arrival.queue_id), |wish| {
            arrival.max_offset > wish.offset
                && wish.queue_id == arrival.queue_id
                && *wish.topic == *arrival.topic
                && wish.filter.matches(arrival.tags_code)
        });
    }

    /// Wakes everyone whose deadline has passed.
    fn expire(&self, core: &Arc<Core>, now_ms: i64) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            if shard.queues.is_empty() || now_ms < shard.earliest_ms {
                continue;
            }
            let late = shard.take_all(|held| held.wish.deadline_ms <= now_ms);
            drop(shard);
            self.woken(core, late);
        }
    }

    /// Forgets those whose client is gone: their deadline may be far away.
    fn sweep(&self, core: &Arc<Core>) {
        for shard in &self.shards {
            let gone = shard.lock().take_all(Held::is_gone);
            self.woken(core, gone);
        }
    }

    /// Wakes everyone, and from now on holds no one.
    pub(super) fn release(&self, core: &Arc<Core>) {
        self.released.store(true, Ordering::Release);
        for shard in &self.shards {
            let all = shard.lock().take_all(|_| true);
            self.woken(core, all);
        }
    }

    /// Held requests.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, key: u64) -> &Mutex<Shard> {
        &self.shards[key as usize % SHARDS]
    }

    fn wake_queue(&self, core: &Arc<Core>, key: u64, wanted: impl Fn(&Wish) -> bool) {
        let woken = self.shard(key).lock().take(key, wanted);
        self.woken(core, woken);
    }

    fn woken(&self, core: &Arc<Core>, woken: Vec<Held>) {
        if !woken.is_empty() {
            self.count.fetch_sub(woken.len(), Ordering::AcqRel);
            self.wake(core, woken);
        }
    }

    /// Runs pulls on the runtime and gives jobs back to their queue.
    fn wake(&self, core: &Arc<Core>, woken: Vec<Held>) {
        let mut pulls = Vec::new();
        for held in woken {
            match held.sleeper {
                Sleeper::Pull(task) if task.is_gone() => {}
                Sleeper::Pull(task) => pulls.push(task),
                Sleeper::Job(job) if job.peer.is_closing() => job.no_reply(),
                Sleeper::Job(job) => job.resubmit(),
            }
        }
        if pulls.is_empty() {
            return;
        }
        if let Some(runtime) = self.runtime.lock().as_ref() {
            let core = Arc::clone(core);
            runtime
                .spawn(async move { pulls.into_iter().for_each(|task| pull::rerun(&core, *task)) });
        }
    }
}

/// Looks at the deadlines for as long as the server lives.
pub(super) async fn keep_time(core: Arc<Core>) {
    *core.holds.runtime.lock() = Some(Handle::current());
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(HOLD_TICK_MS));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for tick in 0u64.. {
        ticks.tick().await;
        if core.holds.is_empty() {
            continue;
        }
        core.holds.expire(&core, core.clock.monotonic_ms());
        if tick % HOLD_SWEEP_TICKS == 0 {
            core.holds.sweep(&core);
        }
    }
}

impl Shard {
    fn insert(&mut self, key: u64, held: Held) {
        if self.queues.is_empty() {
            self.earliest_ms = i64::MAX;
        }
        self.earliest_ms = self.earliest_ms.min(held.wish.deadline_ms);
        self.queues.entry(key).or_default().push(held);
    }

    fn take(&mut self, key: u64, wanted: impl Fn(&Wish) -> bool) -> Vec<Held> {
        let Some(queue) = self.queues.get_mut(&key) else {
            return Vec::new();
        };
        let taken = queue.extract_if(.., |held| wanted(&held.wish)).collect();
        if queue.is_empty() {
            self.queues.remove(&key);
        }
        taken
    }

    /// Takes out of every queue, and looks for the earliest deadline among the rest.
    fn take_all(&mut self, wanted: impl Fn(&Held) -> bool) -> Vec<Held> {
        let mut taken = Vec::new();
        let mut earliest_ms = i64::MAX;
        self.queues.retain(|_, queue| {
            taken.extend(queue.extract_if(.., |held| wanted(held)));
            let deadlines = queue.iter().map(|held| held.wish.deadline_ms);
            earliest_ms = deadlines.fold(earliest_ms, i64::min);
            !queue.is_empty()
        });
        self.earliest_ms = earliest_ms;
        taken
    }
}

/// FNV-1a: short keys, no attacker gains from a collision (the wish is compared too).
fn key(topic: &str, queue_id: i32) -> u64 {
    let bytes = topic.bytes().chain(queue_id.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^ (hash >> 32)
}
