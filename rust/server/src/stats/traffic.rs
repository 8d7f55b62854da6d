//! Messages stored per topic and read per group, for the statistics.
//!
//! Each thread counts in its own shard, so its lock is almost never contended. Python collects the
//! sums every ten seconds and turns them into RocketMQ's statistics items. Between two collections
//! a shard has at most one row per existing topic, and one per group and queue that was read; rows
//! of groups beyond a limit are not counted.

use std::cell::Cell;
use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::limits::TRAFFIC_ROWS_MAX;

/// Shards; more threads than these share some.
pub(crate) const SHARDS: usize = 16;

/// Queue id of puts whose queue the statistics do not show.
pub const ANY_QUEUE: i32 = -1;

static NEXT_SHARD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SHARD: Cell<usize> = Cell::new(NEXT_SHARD.fetch_add(1, Ordering::Relaxed) % SHARDS);
}

/// Returns the shard of this thread.
pub(crate) fn own_shard() -> usize {
    SHARD.get()
}

/// Sums over some requests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    /// Number of requests.
    pub times: u64,
    /// Number of messages.
    pub messages: u64,
    /// Bytes of the messages' records.
    pub bytes: u64,
    /// Milliseconds that the requests waited for the disk.
    pub wait_ms: u64,
    /// Bytes of the log after the last message that was read. If several threads served the reader,
    /// the largest value counts; when the reader has caught up, all threads show that by the next
    /// collection.
    pub behind_bytes: u64,
}

impl Sums {
    /// One request.
    pub fn one(messages: usize, bytes: usize, wait_ms: u64) -> Self {
        Self {
            times: 1,
            messages: messages as u64,
            bytes: bytes as u64,
            wait_ms,
            behind_bytes: 0,
        }
    }

    fn add(&mut self, more: Self) {
        self.times += more.times;
        self.messages += more.messages;
        self.bytes += more.bytes;
        self.wait_ms += more.wait_ms;
        self.behind_bytes = more.behind_bytes;
    }
}

/// A `Vec`, because it has few rows and searching it costs less than hashing.
type ByQueue = Vec<(i32, Sums)>;
type ByTopic = HashMap<String, ByQueue>;

/// Aligned to its own cache lines, because neighbours belong to other threads.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<Rows>);

#[derive(Debug, Default)]
struct Rows {
    /// By topic; queues are counted separately only in the schedule topic.
    puts: ByTopic,
    /// Topic, queue and sums of the last puts, to be added to `puts`. Most puts go to the same
    /// topic as the put before, and need no hash of its name.
    last_puts: (String, i32, Sums),
    /// By topic and group.
    gets: HashMap<String, ByTopic>,
    /// Number of rows in `gets`.
    get_count: usize,
    /// Delivered delayed messages, by real topic and queue of the schedule topic.
    deliveries: ByTopic,
}

impl Rows {
    fn enter_last(&mut self) {
        let (topic, queue_id, sums) = &mut self.last_puts;
        let sums = mem::take(sums);
        if sums.times > 0 {
            add(&mut self.puts, topic, *queue_id, sums);
        }
    }
}

/// Counters of all threads.
#[derive(Debug, Default)]
pub struct Traffic([Shard; SHARDS]);

/// Counts since the last collection. A key may have several rows.
#[derive(Debug, Default)]
pub struct Taken {
    /// Topic, queue or [`ANY_QUEUE`].
    pub puts: Vec<(String, i32, Sums)>,
    /// Topic, group, queue.
    pub gets: Vec<(String, String, i32, Sums)>,
    /// Real topic, queue of the schedule topic.
    pub deliveries: Vec<(String, i32, Sums)>,
}

impl Traffic {
    /// Counts a put.
    pub fn put(&self, topic: &str, queue_id: i32, sums: Sums) {
        let mut rows = self.own();
        let (last_topic, last_queue, last) = &mut rows.last_puts;
        if *last_queue == queue_id && last_topic == topic {
            return last.add(sums);
        }
        rows.enter_last();
        topic.clone_into(&mut rows.last_puts.0);
        (rows.last_puts.1, rows.last_puts.2) = (queue_id, sums);
    }

    /// Counts a pull that found messages.
    pub fn get(&self, topic: &str, group: &str, queue_id: i32, sums: Sums) {
        let rows = &mut *self.own();
        let queues = rows.gets.get_mut(topic).and_then(|of| of.get_mut(group));
        let known = queues.and_then(|of| of.iter_mut().find(|(known, _)| *known == queue_id));
        match known {
            Some((_, known)) => known.add(sums),
            None if rows.get_count >= TRAFFIC_ROWS_MAX => {}
            None => {
                rows.get_count += 1;
                let groups = rows.gets.entry(topic.to_owned()).or_default();
                let queues = groups.entry(group.to_owned()).or_default();
                queues.push((queue_id, sums));
            }
        }
    }

    /// Counts a delayed message that was delivered from a queue of the schedule topic.
    pub fn delivery(&self, queue_id: i32, topic: &str, bytes: usize) {
        let sums = Sums::one(1, bytes, 0);
        add(&mut self.own().deliveries, topic, queue_id, sums);
    }

    /// Returns and clears everything counted since the last call.
    pub fn take(&self) -> Taken {
        let mut taken = Taken::default();
        for shard in &self.0 {
            let mut rows = mem::take(&mut *shard.0.lock());
            rows.enter_last();
            taken.puts.extend(rows.puts.into_iter().flat_map(flat));
            taken
                .deliveries
                .extend(rows.deliveries.into_iter().flat_map(flat));
            for (topic, groups) in rows.gets {
                for (group, queues) in groups {
                    let row = |(queue_id, sums)| (topic.clone(), group.clone(), queue_id, sums);
                    taken.gets.extend(queues.into_iter().map(row));
                }
            }
        }
        taken
    }

    fn own(&self) -> MutexGuard<'_, Rows> {
        self.0[own_shard()].0.lock()
    }
}

fn add(topics: &mut ByTopic, name: &str, queue_id: i32, sums: Sums) {
    match topics.get_mut(name) {
        Some(queues) => match queues.iter_mut().find(|(known, _)| *known == queue_id) {
            Some((_, known)) => known.add(sums),
            None => queues.push((queue_id, sums)),
        },
        None => {
            topics.insert(name.to_owned(), vec![(queue_id, sums)]);
        }
    }
}

fn flat((topic, queues): (String, ByQueue)) -> impl Iterator<Item = (String, i32, Sums)> {
    let row = move |(queue_id, sums)| (topic.clone(), queue_id, sums);
    queues.into_iter().map(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_apart_and_are_taken_together_once() {
        let traffic = Traffic::default();
        std::thread::scope(|scope| {
            for _ in 0..SHARDS + 1 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        traffic.put("T", ANY_QUEUE, Sums::one(2, 100, 0));
                        traffic.get("T", "G", 3, Sums::one(5, 50, 7));
                    }
                });
            }
        });
        let taken = traffic.take();
        let total = |sums: &mut dyn Iterator<Item = Sums>| {
            let mut total = Sums::default();
            sums.for_each(|sums| total.add(sums));
            total
        };
        let requests = 10 * (SHARDS as u64 + 1);
        let puts = total(&mut taken.puts.iter().map(|row| row.2));
        assert_eq!(
            (puts.times, puts.messages, puts.bytes),
            (requests, 2 * requests, 100 * requests)
        );
        let gets = total(&mut taken.gets.iter().map(|row| row.3));
        assert_eq!((gets.messages, gets.wait_ms), (5 * requests, 7 * requests));
        assert!(
            taken
                .gets
                .iter()
                .all(|row| (&*row.0, &*row.1, row.2) == ("T", "G", 3))
        );
        let again = traffic.take();
        assert!(again.puts.is_empty() && again.gets.is_empty());
    }

    #[test]
    fn puts_of_several_topics_are_counted_separately() {
        let traffic = Traffic::default();
        for (topic, queue_id) in [
            ("T", -1),
            ("T", -1),
            ("U", -1),
            ("T", -1),
            ("T", 3),
            ("", -1),
        ] {
            traffic.put(topic, queue_id, Sums::one(1, 10, 0));
        }
        let mut puts = traffic.take().puts;
        puts.sort_unstable_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
        let counted = puts
            .iter()
            .map(|(topic, queue_id, sums)| (&**topic, *queue_id, sums.times));
        let expected = [("", -1, 1), ("T", -1, 3), ("T", 3, 1), ("U", -1, 1)];
        assert_eq!(counted.collect::<Vec<_>>(), expected);
        assert!(traffic.take().puts.is_empty());
    }

    #[test]
    fn readers_beyond_the_limit_are_not_counted() {
        let traffic = Traffic::default();
        let get = |group: usize| traffic.get("T", &format!("g{group}"), 0, Sums::one(1, 10, 0));
        (0..TRAFFIC_ROWS_MAX + 10).for_each(get);
        get(0);
        let gets = traffic.take().gets;
        assert_eq!(gets.len(), TRAFFIC_ROWS_MAX);
        let times = gets.iter().map(|row| row.3.times).sum::<u64>();
        assert_eq!(times, TRAFFIC_ROWS_MAX as u64 + 1);
        get(TRAFFIC_ROWS_MAX);
        assert_eq!(traffic.take().gets.len(), 1, "a new period");
    }

    #[test]
    fn a_delivery_is_not_counted_as_a_put() {
        let traffic = Traffic::default();
        traffic.delivery(2, "T", 300);
        let taken = traffic.take();
        let sums = Sums::one(1, 300, 0);
        assert_eq!(taken.deliveries, [("T".to_owned(), 2, sums)]);
        assert!(taken.puts.is_empty());
    }
}
