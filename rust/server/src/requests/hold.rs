//! Long polling: requests that wait for a message, woken by its arrival or by their deadline.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::conn::peers::Peer;
use crate::core::Core;
use crate::handoff::Job;
use crate::limits::{
    HOLD_FILTER_BYTES_FREE, HOLD_FILTER_BYTES_MAX, HOLD_SWEEP_TICKS, HOLD_TICK_MS, HOLDS_MAX,
    HOLDS_OF_CLIENT_MAX,
};
use crate::requests::pull::{self, PullTask};
use mq_store::{Arrivals, TagFilter};

/// Shards, each with its own lock; a power of two.
const SHARDS: usize = 16;

/// Pulls that run one behind the other once they are woken: a task for each would cost more than
/// the pull, one task for thousands would keep a worker from its connections.
const PULLS_AT_ONCE: usize = 32;

const TICK_MS: i64 = HOLD_TICK_MS as i64;

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

/// A wish, wherever its parts are kept.
pub(crate) struct Wanted<'a> {
    pub topic: &'a str,
    pub queue_id: i32,
    pub offset: i64,
    pub filter: &'a TagFilter,
}

/// Who sleeps. Kept small: a hundred thousand of them are usual, two or three to a queue.
enum Held {
    Pull(PullTask),
    Job(Box<(Wish, Job)>),
}

/// What one takes beside its names and its share of the tables.
#[cfg(test)]
pub(crate) const HELD_BYTES: usize = size_of::<Held>();

impl Held {
    fn wanted(&self) -> Wanted<'_> {
        match self {
            Self::Pull(task) => task.wanted(),
            Self::Job(held) => Wanted {
                topic: &held.0.topic,
                queue_id: held.0.queue_id,
                offset: held.0.offset,
                filter: &held.0.filter,
            },
        }
    }

    fn topic(&self) -> Arc<str> {
        match self {
            Self::Pull(task) => Arc::clone(&task.topic),
            Self::Job(held) => Arc::clone(&held.0.topic),
        }
    }

    /// Monotonic milliseconds at which it is answered anyway.
    fn deadline_ms(&self) -> i64 {
        match self {
            Self::Pull(task) => task.deadline_ms(),
            Self::Job(held) => held.0.deadline_ms,
        }
    }

    /// Bytes of a filter that came with it; the frame of a job counts elsewhere.
    fn filter_bytes(&self) -> usize {
        match self {
            Self::Pull(task) => Some(task.filter_bytes())
                .filter(|bytes| *bytes > HOLD_FILTER_BYTES_FREE)
                .unwrap_or(0),
            Self::Job(_) => 0,
        }
    }

    fn peer(&self) -> &Peer {
        match self {
            Self::Pull(task) => &task.peer,
            Self::Job(held) => &held.1.peer,
        }
    }

    /// Its client is gone.
    fn is_gone(&self) -> bool {
        self.peer().is_closing()
    }
}

/// Those who wait for one queue. Stays, empty, until the wheel comes to it: the next hold is near.
struct Waiting {
    held: Vec<Held>,
    /// The tick at which the wheel comes to it, not after the earliest deadline.
    due: i64,
}

#[derive(Default)]
struct Shard {
    /// By hash of topic and queue, so that an arrival needs no owned key; the wish decides.
    queues: HashMap<u64, Waiting>,
    /// Which queues have a deadline in which tick. Only the entry that a queue is due at counts.
    wheel: BTreeMap<i64, Vec<u64>>,
}

/// All held requests.
#[derive(Default)]
pub struct Holds {
    shards: [Mutex<Shard>; SHARDS],
    count: AtomicUsize,
    /// Bytes of the filters that came with held pulls.
    filter_bytes: AtomicUsize,
    /// A connection ended since the last sweep.
    someone_left: AtomicBool,
    /// Nothing is held any more: the server stops.
    released: AtomicBool,
    /// Where woken pulls run; set when the server starts.
    runtime: Mutex<Option<Handle>>,
}

impl Holds {
    /// Holds a pull until its wish is fulfilled, or until the time it may be held.
    pub(crate) fn hold_pull(&self, core: &Arc<Core>, task: PullTask) {
        self.hold(core, Held::Pull(task));
    }

    /// Holds a request that Python parked.
    pub(crate) fn hold_job(&self, core: &Arc<Core>, wish: Wish, job: Job) {
        self.hold(core, Held::Job(Box::new((wish, job))));
    }

    fn hold(&self, core: &Arc<Core>, held: Held) {
        if self.released.load(Ordering::Acquire) || !self.has_room(&held) {
            return self.wake(core, vec![held]);
        }
        held.peer().note_held();
        let filter_bytes = held.filter_bytes();
        self.filter_bytes.fetch_add(filter_bytes, Ordering::Relaxed);
        core.counters.holds.one();
        let wanted = held.wanted();
        let (queue_id, offset) = (wanted.queue_id, wanted.offset);
        let key = key(wanted.topic, queue_id);
        let topic = held.topic();
        self.count.fetch_add(1, Ordering::AcqRel);
        self.shard(key).lock().insert(key, held);
        // A message may have arrived after the request found none and before it was held. One
        // of the two sides sees the other: here the hold comes before the look at the queue's
        // end, there the queue's end before the look at the holds.
        fence(Ordering::SeqCst);
        let max_offset = core.store.as_ref().map_or(0, |store| {
            store.hurry();
            store.max_offset(&topic, queue_id)
        });
        if max_offset > offset {
            self.wake_queue(core, key, |wanted| {
                wanted.queue_id == queue_id && *wanted.topic == *topic && max_offset > wanted.offset
            });
        }
        if self.released.load(Ordering::Acquire) {
            self.release(core);
        }
    }

    fn has_room(&self, held: &Held) -> bool {
        let bytes = held.filter_bytes();
        let filter_bytes = self.filter_bytes.load(Ordering::Relaxed);
        self.len() < HOLDS_MAX
            && held.peer().held_count() < HOLDS_OF_CLIENT_MAX
            && (bytes == 0 || filter_bytes + bytes <= HOLD_FILTER_BYTES_MAX)
    }

    /// Messages became readable: wakes those who wait for them, of all queues in one go. Called by
    /// the store's dispatch thread, so it only moves the waiting elsewhere.
    pub(crate) fn arrived(&self, core: &Arc<Core>, arrivals: &Arrivals<'_>) {
        fence(Ordering::SeqCst); // see `hold`
        if self.is_empty() {
            return;
        }
        let mut woken = Vec::new();
        arrivals.while_awaited(|arrival| {
            let key = key(arrival.topic, arrival.queue_id);
            self.shard(key).lock().take(key, &mut woken, |wanted| {
                arrival.max_offset > wanted.offset
                    && wanted.queue_id == arrival.queue_id
                    && wanted.topic == arrival.topic
                    && wanted.filter.matches(arrival.tags_code)
            })
        });
        self.woken(core, woken);
    }

    /// Wakes everyone whose deadline has passed.
    fn expire(&self, core: &Arc<Core>, now_ms: i64) {
        for shard in &self.shards {
            let late = shard.lock().take_late(now_ms);
            self.woken(core, late);
        }
    }

    /// A connection ended: what it holds is forgotten soon.
    pub(crate) fn left(&self) {
        self.someone_left.store(true, Ordering::Release);
    }

    /// Forgets those whose client is gone: their deadline may be far away.
    fn sweep(&self, core: &Arc<Core>) {
        for shard in &self.shards {
            let gone = shard.lock().take_all(Held::is_gone);
            self.woken(core, gone);
        }
    }

    /// Wakes everyone, and from now on holds no one.
    pub(crate) fn release(&self, core: &Arc<Core>) {
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

    fn wake_queue(&self, core: &Arc<Core>, key: u64, wanted: impl Fn(&Wanted<'_>) -> bool) {
        let mut woken = Vec::new();
        self.shard(key).lock().take(key, &mut woken, wanted);
        self.woken(core, woken);
    }

    fn woken(&self, core: &Arc<Core>, woken: Vec<Held>) {
        if !woken.is_empty() {
            self.count.fetch_sub(woken.len(), Ordering::AcqRel);
            woken.iter().for_each(|held| held.peer().note_woken());
            let filter_bytes = woken.iter().map(Held::filter_bytes).sum();
            self.filter_bytes.fetch_sub(filter_bytes, Ordering::Relaxed);
            self.wake(core, woken);
        }
    }

    /// Runs pulls on the runtime and gives jobs back to their queue.
    fn wake(&self, core: &Arc<Core>, woken: Vec<Held>) {
        let mut pulls = Vec::new();
        for held in woken {
            match held {
                Held::Pull(task) if task.is_gone() => {}
                Held::Pull(task) => pulls.push(task),
                Held::Job(held) if held.1.peer.is_closing() => held.1.no_reply(),
                Held::Job(held) => held.1.resubmit(),
            }
            if pulls.len() == PULLS_AT_ONCE {
                self.rerun(core, std::mem::take(&mut pulls));
            }
        }
        if !pulls.is_empty() {
            self.rerun(core, pulls);
        }
    }

    fn rerun(&self, core: &Arc<Core>, pulls: Vec<PullTask>) {
        if let Some(runtime) = self.runtime.lock().as_ref() {
            let core = Arc::clone(core);
            runtime
                .spawn(async move { pulls.into_iter().for_each(|task| pull::rerun(&core, task)) });
        }
    }
}

/// Looks at the deadlines for as long as the server lives.
pub(crate) async fn keep_time(core: Arc<Core>) {
    *core.holds.runtime.lock() = Some(Handle::current());
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(HOLD_TICK_MS));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for tick in 0u64.. {
        ticks.tick().await;
        core.holds.expire(&core, core.clock.monotonic_ms());
        let someone_left = || core.holds.someone_left.swap(false, Ordering::AcqRel);
        if tick % HOLD_SWEEP_TICKS == 0 && someone_left() {
            core.holds.sweep(&core);
        }
    }
}

impl Shard {
    fn insert(&mut self, key: u64, held: Held) {
        let tick = tick_after(held.deadline_ms());
        let queue = self.queues.entry(key).or_insert(Waiting {
            held: Vec::new(),
            due: i64::MAX,
        });
        let count = queue.held.len();
        if count == queue.held.capacity() {
            // By a half, not to four at least and then by twice: few wait for most queues.
            queue.held.reserve_exact(1.max(count / 2));
        }
        queue.held.push(held);
        if tick < queue.due {
            queue.due = tick;
            self.wheel.entry(tick).or_default().push(key);
        }
    }

    /// Moves who is wanted to `taken`; tells whether others wait there.
    fn take(
        &mut self,
        key: u64,
        taken: &mut Vec<Held>,
        wanted: impl Fn(&Wanted<'_>) -> bool,
    ) -> bool {
        let Some(queue) = self.queues.get_mut(&key) else {
            return false;
        };
        let found = queue.held.extract_if(.., |held| wanted(&held.wanted()));
        taken.extend(found);
        !queue.held.is_empty()
    }

    fn take_all(&mut self, wanted: impl Fn(&Held) -> bool) -> Vec<Held> {
        let queues = self.queues.values_mut();
        queues
            .flat_map(|queue| queue.held.extract_if(.., |held| wanted(held)))
            .collect()
    }

    /// Takes those whose deadline has passed, and turns the wheel.
    fn take_late(&mut self, now_ms: i64) -> Vec<Held> {
        let mut taken = Vec::new();
        while let Some(entry) = self.wheel.first_entry() {
            let tick = *entry.key();
            if tick.saturating_mul(TICK_MS) > now_ms {
                break;
            }
            for key in entry.remove() {
                self.take_late_of(key, tick, now_ms, &mut taken);
            }
        }
        taken
    }

    fn take_late_of(&mut self, key: u64, tick: i64, now_ms: i64, taken: &mut Vec<Held>) {
        let Some(queue) = self.queues.get_mut(&key).filter(|queue| queue.due == tick) else {
            return;
        };
        taken.extend(
            queue
                .held
                .extract_if(.., |held| held.deadline_ms() <= now_ms),
        );
        let deadlines = queue.held.iter().map(Held::deadline_ms);
        match deadlines.min() {
            None => drop(self.queues.remove(&key)),
            Some(next_ms) => {
                queue.due = tick_after(next_ms);
                self.wheel.entry(queue.due).or_default().push(key);
            }
        }
    }
}

/// The first tick that does not begin before this time.
fn tick_after(time_ms: i64) -> i64 {
    time_ms.saturating_add(TICK_MS - 1).div_euclid(TICK_MS)
}

/// FNV-1a: short keys, no attacker gains from a collision (the wish is compared too).
fn key(topic: &str, queue_id: i32) -> u64 {
    let bytes = topic.bytes().chain(queue_id.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests;
