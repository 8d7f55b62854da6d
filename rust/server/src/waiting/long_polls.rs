//! Long polls: requests that wait for a message, until it arrives or their deadline passes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use parking_lot::Mutex;

use crate::alarm::Alarm;
use crate::clients::peers::Peer;
use crate::handoff::request::Request;
use crate::limits::{
    HOLD_FILTER_BYTES_FREE, HOLD_FILTER_BYTES_MAX, HOLD_TICK_MS, HOLDS_MAX, HOLDS_OF_CLIENT_MAX,
};
use crate::operations::server_state::ServerState;
use crate::waiting::pull_task::PullTask;
use mq_store::{Arrivals, MessageFilter};

/// Number of shards, each with its own lock; a power of two.
const SHARDS: usize = 16;

const TICK_MS: i64 = HOLD_TICK_MS as i64;

/// The message that a long poll waits for.
#[derive(Debug, Clone)]
pub struct PollKey {
    /// Topic of the queue.
    pub topic: Arc<str>,
    /// The queue.
    pub queue_id: i32,
    /// The message has this offset or a higher one.
    pub offset: i64,
    /// The message passes this filter.
    pub filter: MessageFilter,
    /// Monotonic milliseconds at which the request is answered in any case.
    pub deadline_ms: i64,
}

/// A key whose parts are borrowed.
pub(crate) struct PollKeyRef<'a> {
    pub topic: &'a str,
    pub queue_id: i32,
    pub offset: i64,
    pub filter: &'a MessageFilter,
}

/// A long poll. Kept small: a hundred thousand are usual, two or three per queue.
pub(crate) enum LongPoll {
    Pull(PullTask),
    Python(Box<(PollKey, Request)>),
}

/// Size of a long poll, without its names and its share of the tables.
#[cfg(test)]
pub(crate) const LONG_POLL_BYTES: usize = size_of::<LongPoll>();

impl LongPoll {
    fn key(&self) -> PollKeyRef<'_> {
        match self {
            Self::Pull(task) => PollKeyRef {
                topic: &task.pull.topic,
                queue_id: task.pull.queue_id,
                offset: task.pull.offset,
                filter: &task.pull.filter,
            },
            Self::Python(held) => PollKeyRef {
                topic: &held.0.topic,
                queue_id: held.0.queue_id,
                offset: held.0.offset,
                filter: &held.0.filter,
            },
        }
    }

    fn topic(&self) -> Arc<str> {
        match self {
            Self::Pull(task) => Arc::clone(&task.pull.topic),
            Self::Python(held) => Arc::clone(&held.0.topic),
        }
    }

    /// Monotonic milliseconds at which the request is answered in any case.
    fn deadline_ms(&self) -> i64 {
        match self {
            Self::Pull(task) => task.pull.deadline_ms(),
            Self::Python(held) => held.0.deadline_ms,
        }
    }

    /// Bytes of the filter of a pull; a request in Python counts its frame elsewhere.
    fn filter_bytes(&self) -> usize {
        match self {
            Self::Pull(task) => Some(task.pull.filter_bytes())
                .filter(|bytes| *bytes > HOLD_FILTER_BYTES_FREE)
                .unwrap_or(0),
            Self::Python(_) => 0,
        }
    }

    fn peer(&self) -> &Peer {
        match self {
            Self::Pull(task) => &task.peer,
            Self::Python(held) => &held.1.peer,
        }
    }

    /// Whether its client is gone.
    fn is_gone(&self) -> bool {
        self.peer().is_closing()
    }
}

/// The long polls of one queue. An empty entry stays until its tick in the wheel, because the next
/// long poll usually comes soon.
struct QueuePolls {
    held: Vec<LongPoll>,
    /// The tick at which the wheel visits the queue; not after the earliest deadline.
    due: i64,
}

#[derive(Default)]
struct Shard {
    /// By hash of topic and queue, so that an arrival needs no owned key; the key is compared too.
    queues: HashMap<u64, QueuePolls>,
    /// Queues by the tick of a deadline. Only the entry at a queue's `due` tick counts.
    wheel: BTreeMap<i64, Vec<u64>>,
}

/// All long polls.
#[derive(Default)]
pub struct LongPolls {
    shards: [Mutex<Shard>; SHARDS],
    count: AtomicUsize,
    /// Bytes of the filters of long polls.
    filter_bytes: AtomicUsize,
    /// Whether a connection ended since the last sweep.
    someone_left: AtomicBool,
    /// Whether the server stops, so that no request becomes a long poll.
    released: AtomicBool,
    /// Wakes the task that ends long polls, at the first deadline.
    pub(crate) deadline: Alarm,
}

impl LongPolls {
    /// Makes the request a long poll until its message arrives or its deadline passes. Returns the
    /// requests to answer now: this one if there is no room, and others of its queue whose message
    /// is there already.
    pub(crate) fn hold(&self, state: &ServerState, held: LongPoll) -> Vec<LongPoll> {
        if self.released.load(Ordering::Acquire) || !self.has_room(&held) {
            return vec![held];
        }
        held.peer().note_held();
        let filter_bytes = held.filter_bytes();
        self.filter_bytes.fetch_add(filter_bytes, Ordering::Relaxed);
        state.stats.counters.holds.one();
        let wanted = held.key();
        let (queue_id, offset) = (wanted.queue_id, wanted.offset);
        let key = hash_of(wanted.topic, queue_id);
        let topic = held.topic();
        self.count.fetch_add(1, Ordering::AcqRel);
        let tick = self.shard(key).lock().insert(key, held);
        self.deadline.set(tick.saturating_mul(TICK_MS));
        // A message may have arrived after the request found none and before it was inserted. One
        // of the two threads sees the other's write: this one inserts and then reads the queue's
        // end, the dispatch thread moves the queue's end and then looks for long polls.
        fence(Ordering::SeqCst);
        let max_offset = state.store.as_ref().map_or(0, |store| {
            store.hurry();
            store.max_offset(&topic, queue_id)
        });
        let mut woken = Vec::new();
        if max_offset > offset {
            woken = self.take_queue(key, |wanted| {
                wanted.queue_id == queue_id && *wanted.topic == *topic && max_offset > wanted.offset
            });
        }
        if self.released.load(Ordering::Acquire) {
            woken.extend(self.release());
        }
        woken
    }

    fn has_room(&self, held: &LongPoll) -> bool {
        let bytes = held.filter_bytes();
        let filter_bytes = self.filter_bytes.load(Ordering::Relaxed);
        self.len() < HOLDS_MAX
            && held.peer().held_count() < HOLDS_OF_CLIENT_MAX
            && (bytes == 0 || filter_bytes + bytes <= HOLD_FILTER_BYTES_MAX)
    }

    /// Returns the long polls whose messages became readable, for all queues of one batch. The
    /// store's dispatch thread calls it.
    pub(crate) fn arrived(&self, arrivals: &Arrivals<'_>) -> Vec<LongPoll> {
        fence(Ordering::SeqCst); // see `hold`
        if self.is_empty() {
            return Vec::new();
        }
        let mut woken = Vec::new();
        arrivals.while_awaited(|arrival| {
            let key = hash_of(arrival.topic, arrival.queue_id);
            self.shard(key).lock().take(key, &mut woken, |wanted| {
                arrival.max_offset > wanted.offset
                    && wanted.queue_id == arrival.queue_id
                    && wanted.topic == arrival.topic
                    && wanted.filter.matches(arrival.tags_code)
            })
        });
        self.note_taken(&woken);
        woken
    }

    /// Returns the long polls whose deadline has passed, and sets the alarm to the next one.
    pub(crate) fn expired(&self, now_ms: i64) -> Vec<LongPoll> {
        self.deadline.clear();
        self.taken(|shard| {
            let late = shard.take_late(now_ms);
            if let Some((tick, _)) = shard.wheel.first_key_value() {
                self.deadline.set_again(tick.saturating_mul(TICK_MS));
            }
            late
        })
    }

    /// Records that a connection ended; the next sweep removes its long polls.
    pub(crate) fn left(&self) {
        self.someone_left.store(true, Ordering::Release);
    }

    /// Returns the long polls of closed connections, if a connection ended since the last sweep.
    /// Their deadlines may be far away.
    pub(crate) fn sweep(&self) -> Vec<LongPoll> {
        match self.someone_left.swap(false, Ordering::AcqRel) {
            true => self.taken(|shard| shard.take_all(LongPoll::is_gone)),
            false => Vec::new(),
        }
    }

    /// Returns all long polls; from now on no request becomes one.
    pub(crate) fn release(&self) -> Vec<LongPoll> {
        self.released.store(true, Ordering::Release);
        self.taken(|shard| shard.take_all(|_| true))
    }

    /// Number of long polls.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether there are no long polls.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, key: u64) -> &Mutex<Shard> {
        &self.shards[key as usize % SHARDS]
    }

    pub(crate) fn take_queue(
        &self,
        key: u64,
        wanted: impl Fn(&PollKeyRef<'_>) -> bool,
    ) -> Vec<LongPoll> {
        let mut woken = Vec::new();
        self.shard(key).lock().take(key, &mut woken, wanted);
        self.note_taken(&woken);
        woken
    }

    fn taken(&self, take: impl Fn(&mut Shard) -> Vec<LongPoll>) -> Vec<LongPoll> {
        let shards = self.shards.iter();
        let woken: Vec<_> = shards.flat_map(|shard| take(&mut shard.lock())).collect();
        self.note_taken(&woken);
        woken
    }

    fn note_taken(&self, woken: &[LongPoll]) {
        self.count.fetch_sub(woken.len(), Ordering::AcqRel);
        woken.iter().for_each(|held| held.peer().note_woken());
        let filter_bytes = woken.iter().map(LongPoll::filter_bytes).sum();
        self.filter_bytes.fetch_sub(filter_bytes, Ordering::Relaxed);
    }
}

impl Shard {
    /// Adds a long poll; returns the tick at which the wheel visits its queue.
    fn insert(&mut self, key: u64, held: LongPoll) -> i64 {
        let tick = tick_after(held.deadline_ms());
        let queue = self.queues.entry(key).or_insert(QueuePolls {
            held: Vec::new(),
            due: i64::MAX,
        });
        let count = queue.held.len();
        if count == queue.held.capacity() {
            // Grows by a half, not to four and then by a factor of two, because most queues have
            // few long polls.
            queue.held.reserve_exact(1.max(count / 2));
        }
        queue.held.push(held);
        if tick < queue.due {
            queue.due = tick;
            self.wheel.entry(tick).or_default().push(key);
        }
        queue.due
    }

    /// Moves the wanted long polls to `taken`; returns whether others remain in the queue.
    fn take(
        &mut self,
        key: u64,
        taken: &mut Vec<LongPoll>,
        wanted: impl Fn(&PollKeyRef<'_>) -> bool,
    ) -> bool {
        let Some(queue) = self.queues.get_mut(&key) else {
            return false;
        };
        let found = queue.held.extract_if(.., |held| wanted(&held.key()));
        taken.extend(found);
        !queue.held.is_empty()
    }

    fn take_all(&mut self, wanted: impl Fn(&LongPoll) -> bool) -> Vec<LongPoll> {
        let queues = self.queues.values_mut();
        queues
            .flat_map(|queue| queue.held.extract_if(.., |held| wanted(held)))
            .collect()
    }

    /// Takes the long polls whose deadline has passed, and advances the wheel.
    fn take_late(&mut self, now_ms: i64) -> Vec<LongPoll> {
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

    fn take_late_of(&mut self, key: u64, tick: i64, now_ms: i64, taken: &mut Vec<LongPoll>) {
        let Some(queue) = self.queues.get_mut(&key).filter(|queue| queue.due == tick) else {
            return;
        };
        taken.extend(
            queue
                .held
                .extract_if(.., |held| held.deadline_ms() <= now_ms),
        );
        let deadlines = queue.held.iter().map(LongPoll::deadline_ms);
        match deadlines.min() {
            None => drop(self.queues.remove(&key)),
            Some(next_ms) => {
                queue.due = tick_after(next_ms);
                self.wheel.entry(queue.due).or_default().push(key);
            }
        }
    }
}

/// Returns the first tick that does not begin before this time.
fn tick_after(time_ms: i64) -> i64 {
    time_ms.saturating_add(TICK_MS - 1).div_euclid(TICK_MS)
}

/// FNV-1a: fast for short keys. A collision does no harm, because the key is compared too.
fn hash_of(topic: &str, queue_id: i32) -> u64 {
    let bytes = topic.bytes().chain(queue_id.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests;
