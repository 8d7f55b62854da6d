//! Queue locks of orderly consumers (codes 41 and 42): in memory, with monotonic expiry times.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::limits::LOCK_EXPIRY_MS;
use mq_base::clock::Clock;

/// RocketMQ's MessageQueue; fields in the order fastjson writes them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueName {
    /// Broker the queue is on.
    pub broker_name: String,
    /// Queue of the topic, from 0.
    pub queue_id: i32,
    /// Topic name.
    pub topic: String,
}

/// Body of 41 and 42.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockRequest {
    /// The client.
    pub client_id: String,
    /// The consumer group.
    pub consumer_group: String,
    /// The queues.
    pub mq_set: Vec<QueueName>,
}

/// Body of the reply to 41.
#[derive(Debug, Serialize)]
pub struct LockReply {
    /// The queues now held by the client.
    #[serde(rename = "lockOKMQSet")]
    pub granted: Vec<QueueName>,
}

/// Longest name in a lock, bytes: 255 characters of RocketMQ's and a prefix.
const NAME_BYTES_MAX: usize = 262;
/// Milliseconds between two searches for expired locks while the table is full.
const SWEEP_MS: i64 = 1_000;

impl LockRequest {
    /// Whether every name is valid.
    pub fn has_names(&self) -> bool {
        let queues = self.mq_set.iter();
        let names = queues.flat_map(|queue| [&queue.topic, &queue.broker_name]);
        let mut names = names.chain([&self.client_id, &self.consumer_group]);
        names.all(|name| name.len() <= NAME_BYTES_MAX && !name.contains(char::is_control))
    }
}

/// Limits on the number of locked queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockLimits {
    /// `queueLockMax`: for all clients together.
    pub all: usize,
    /// `clientQueueLockMax`.
    pub of_client: usize,
    /// `sourceSharePercent` of `all`: for all clients of one source address.
    pub of_source: usize,
}

impl Default for LockLimits {
    fn default() -> Self {
        Self {
            all: 100_000,
            of_client: 10_000,
            of_source: 50_000,
        }
    }
}

/// Result of a lock request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// The queues that the client has locked now.
    pub queues: Vec<QueueName>,
    /// The limit because of which other free queues were refused.
    pub full: Option<String>,
}

impl Granted {
    /// Returns the remark about queues that were refused because of a limit.
    pub fn remark(&self) -> Option<String> {
        let full = self.full.as_deref()?;
        Some(format!("some queues are not locked: {full} is reached"))
    }
}

/// The address that a lock counts for; None for this machine, whose locks have no share limit.
pub type Source = Option<IpAddr>;

/// The source of a client's address.
pub fn source_of(address: IpAddr) -> Source {
    let address = address.to_canonical();
    (!address.is_loopback()).then_some(address)
}

#[derive(Debug)]
struct Lock {
    client_id: Arc<str>,
    source: Source,
    renewed_ms: i64,
}

impl Lock {
    fn is_expired(&self, now_ms: i64) -> bool {
        now_ms - self.renewed_ms > LOCK_EXPIRY_MS
    }
}

/// group -> queue -> owner.
pub struct Locks {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    groups: HashMap<String, HashMap<QueueName, Lock>>,
    /// Number of locked queues of each client.
    of_clients: HashMap<Arc<str>, usize>,
    /// Number of locked queues of each source.
    of_sources: HashMap<IpAddr, usize>,
    count: usize,
    swept_ms: Option<i64>,
}

impl Locks {
    /// Creates an empty table; only the monotonic time of `clock` is used.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::default(),
        }
    }

    /// Number of locked queues, including expired locks.
    pub fn len(&self) -> usize {
        self.state.lock().count
    }

    /// Locks each queue that the client has already, and each that is free or expired while the
    /// limits allow.
    pub fn lock(
        &self,
        group: &str,
        (client_id, source): (&str, Source),
        queues: Vec<QueueName>,
        limits: LockLimits,
    ) -> Granted {
        let now_ms = self.clock.monotonic_ms();
        let mut state = self.state.lock();
        let of_source = state.of_source(source);
        if state.count + queues.len() > limits.all || of_source + queues.len() > limits.of_source {
            state.sweep(now_ms);
        }
        let mut granted = Granted::default();
        for queue in queues {
            let is_granted = match state.owner(group, &queue) {
                Some(lock) if *lock.client_id == *client_id => {
                    lock.renewed_ms = now_ms;
                    true
                }
                Some(lock) if !lock.is_expired(now_ms) => false,
                found => {
                    let is_new = found.is_none();
                    match state.full((client_id, source), is_new, limits) {
                        None => {
                            state.take(group, (client_id, source), queue.clone(), now_ms);
                            true
                        }
                        full => {
                            granted.full = full;
                            false
                        }
                    }
                }
            };
            if is_granted {
                granted.queues.push(queue);
            }
        }
        granted
    }

    /// Unlocks the queues that the client has locked.
    pub fn unlock(&self, group: &str, client_id: &str, queues: &[QueueName]) {
        let mut state = self.state.lock();
        for queue in queues {
            let owner = state.owner(group, queue);
            if owner.is_some_and(|lock| *lock.client_id == *client_id) {
                state.free(group, queue);
            }
        }
    }
}

impl State {
    fn owner(&mut self, group: &str, queue: &QueueName) -> Option<&mut Lock> {
        self.groups.get_mut(group)?.get_mut(queue)
    }

    /// Returns the limit that refuses another queue; None if it is allowed. `is_new`: no client has
    /// the queue.
    fn full(
        &self,
        (client_id, source): (&str, Source),
        is_new: bool,
        limits: LockLimits,
    ) -> Option<String> {
        let own = self.of_clients.get(client_id).copied().unwrap_or(0);
        if own >= limits.of_client {
            return Some(format!("clientQueueLockMax={}", limits.of_client));
        }
        if self.of_source(source) >= limits.of_source {
            return Some(format!(
                "the share of one source address, {} of queueLockMax={} (sourceSharePercent),",
                limits.of_source, limits.all
            ));
        }
        (is_new && self.count >= limits.all).then(|| format!("queueLockMax={}", limits.all))
    }

    /// Number of locked queues of all clients of a source; 0 for this machine.
    fn of_source(&self, source: Source) -> usize {
        let counted = source.and_then(|source| self.of_sources.get(&source));
        counted.copied().unwrap_or(0)
    }

    fn take(
        &mut self,
        group: &str,
        (client_id, source): (&str, Source),
        queue: QueueName,
        now_ms: i64,
    ) {
        self.free(group, &queue);
        let known = self.of_clients.get_key_value(client_id);
        let client_id = known.map_or_else(|| client_id.into(), |(known, _)| Arc::clone(known));
        *self.of_clients.entry(Arc::clone(&client_id)).or_default() += 1;
        if let Some(source) = source {
            *self.of_sources.entry(source).or_default() += 1;
        }
        self.count += 1;
        let lock = Lock {
            client_id,
            source,
            renewed_ms: now_ms,
        };
        match self.groups.get_mut(group) {
            Some(held) => held.insert(queue, lock),
            None => {
                let held = HashMap::from([(queue, lock)]);
                self.groups.insert(group.to_owned(), held);
                None
            }
        };
    }

    fn free(&mut self, group: &str, queue: &QueueName) {
        let Some(held) = self.groups.get_mut(group) else {
            return;
        };
        let Some(lock) = held.remove(queue) else {
            return;
        };
        if held.is_empty() {
            self.groups.remove(group);
        }
        self.count -= 1;
        forget_one(&mut self.of_clients, &lock.client_id);
        if let Some(source) = &lock.source {
            forget_one(&mut self.of_sources, source);
        }
    }

    /// Removes expired locks, at most once per `SWEEP_MS`.
    fn sweep(&mut self, now_ms: i64) {
        if self.swept_ms.is_some_and(|then| now_ms - then < SWEEP_MS) {
            return;
        }
        self.swept_ms = Some(now_ms);
        let (of_clients, of_sources) = (&mut self.of_clients, &mut self.of_sources);
        let count = &mut self.count;
        self.groups.retain(|_, held| {
            held.retain(|_, lock| {
                let is_expired = lock.is_expired(now_ms);
                if is_expired {
                    *count -= 1;
                    forget_one(of_clients, &lock.client_id);
                    if let Some(source) = &lock.source {
                        forget_one(of_sources, source);
                    }
                }
                !is_expired
            });
            !held.is_empty()
        });
    }
}

fn forget_one<K: Borrow<Q> + Hash + Eq, Q: Hash + Eq + ?Sized>(
    counts: &mut HashMap<K, usize>,
    of: &Q,
) {
    if let Some(own) = counts.get_mut(of) {
        *own -= 1;
        if *own == 0 {
            counts.remove(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mq_base::clock::ManualClock;

    fn queue(queue_id: i32) -> QueueName {
        QueueName {
            broker_name: "broker-a".into(),
            queue_id,
            topic: "T".into(),
        }
    }

    fn lock(locks: &Locks, group: &str, client_id: &str, queues: Vec<QueueName>) -> Vec<QueueName> {
        let granted = locks.lock(group, (client_id, None), queues, LockLimits::default());
        assert_eq!(granted.full, None);
        granted.queues
    }

    #[test]
    fn grants_free_own_and_expired_queues_only() {
        let clock = ManualClock::at(0);
        let locks = Locks::new(clock.clone());
        let lock = |group, client_id, queues| lock(&locks, group, client_id, queues);
        let both = || vec![queue(0), queue(1)];
        assert_eq!(lock("g", "one", vec![queue(0)]), vec![queue(0)]);
        assert_eq!(lock("g", "two", both()), vec![queue(1)]);
        assert_eq!(lock("g", "one", both()), vec![queue(0)]);
        assert_eq!(lock("other", "two", both()), both());
        clock.advance(LOCK_EXPIRY_MS);
        let renewed = lock("g", "one", vec![queue(0)]);
        assert_eq!(renewed, vec![queue(0)], "renewed in time");
        clock.advance(1);
        let expired = lock("g", "three", both());
        assert_eq!(expired, vec![queue(1)], "two's lock expired");
    }

    #[test]
    fn only_the_owner_unlocks() {
        let locks = Locks::new(ManualClock::at(0));
        lock(&locks, "g", "one", vec![queue(0)]);
        locks.unlock("g", "two", &[queue(0)]);
        assert!(lock(&locks, "g", "two", vec![queue(0)]).is_empty());
        locks.unlock("g", "one", &[queue(0)]);
        assert_eq!(lock(&locks, "g", "two", vec![queue(0)]), vec![queue(0)]);
    }

    #[test]
    fn one_client_and_all_clients_have_a_limit_on_locks() {
        let clock = ManualClock::at(0);
        let locks = Locks::new(clock.clone());
        let limits = LockLimits {
            all: 5,
            of_client: 3,
            of_source: 5,
        };
        let ask = |client_id: &str, ids: std::ops::Range<i32>| {
            let granted = locks.lock("g", (client_id, None), ids.map(queue).collect(), limits);
            (granted.queues.len(), granted.full)
        };
        let own = Some("clientQueueLockMax=3".to_owned());
        assert_eq!(ask("one", 0..4), (3, own.clone()));
        let full = Some("queueLockMax=5".to_owned());
        assert_eq!(ask("two", 0..6), (2, full.clone()), "queues 3 and 4");
        assert_eq!(ask("one", 0..3), (3, None), "it keeps its own");
        assert_eq!(ask("three", 6..7), (0, full));
        clock.advance(LOCK_EXPIRY_MS);
        assert_eq!(ask("one", 0..2), (2, None));
        clock.advance(SWEEP_MS);
        assert_eq!(ask("three", 6..9), (3, None), "expired ones make room");
        assert_eq!(locks.len(), 5);
        assert_eq!(ask("three", 0..1), (0, None), "another client has it");
        assert_eq!(
            ask("three", 2..3),
            (0, own),
            "free, but the client has its share"
        );
    }

    #[test]
    fn a_share_follows_takeovers_and_unlocks() {
        let clock = ManualClock::at(0);
        let locks = Locks::new(clock.clone());
        let limits = LockLimits {
            all: 5,
            of_client: 2,
            of_source: 5,
        };
        let ask = |client_id: &str, queues| {
            let granted = locks.lock("g", (client_id, None), queues, limits);
            granted.queues.len()
        };
        assert_eq!(ask("one", vec![queue(0), queue(1)]), 2);
        clock.advance(LOCK_EXPIRY_MS + 1);
        assert_eq!(ask("two", vec![queue(0), queue(1)]), 2, "taken over");
        assert_eq!(ask("one", vec![queue(2), queue(3)]), 2, "it has no other");
        locks.unlock("g", "one", &[queue(2), queue(3)]);
        locks.unlock("g", "two", &[queue(0), queue(1)]);
        let state = locks.state.lock();
        assert!(state.groups.is_empty() && state.of_clients.is_empty());
        assert_eq!(state.count, 0);
    }

    #[test]
    fn clients_of_one_address_share_a_limit_on_locks() {
        let clock = ManualClock::at(0);
        let locks = Locks::new(clock.clone());
        let limits = LockLimits {
            all: 6,
            of_client: 6,
            of_source: 3,
        };
        let source = |text: &str| source_of(text.parse().unwrap());
        let ask = |who: (&str, Source), ids: std::ops::Range<i32>| {
            let granted = locks.lock("g", who, ids.map(queue).collect(), limits);
            (granted.queues.len(), granted.full.is_some())
        };
        let stranger = source("203.0.113.1");
        assert_eq!(ask(("one", stranger), 0..2), (2, false));
        assert_eq!(ask(("two", source("::ffff:203.0.113.1")), 2..4), (1, true));
        assert_eq!(ask(("three", source("203.0.113.2")), 3..5), (2, false));
        locks.unlock("g", "one", &[queue(0)]);
        assert_eq!(ask(("one", stranger), 0..1), (1, false));
        clock.advance(LOCK_EXPIRY_MS + 1);
        assert_eq!(
            ask(("four", stranger), 5..8),
            (3, false),
            "the expired ones do not count"
        );
        assert_eq!(ask(("own", source("127.0.0.9")), 10..13), (3, false));
        assert_eq!(source("::1"), None);
        assert_eq!(locks.state.lock().of_sources.len(), 1);
    }

    #[test]
    fn a_request_without_queues_leaves_nothing() {
        let locks = Locks::new(ManualClock::at(0));
        assert!(lock(&locks, "g", "one", Vec::new()).is_empty());
        assert!(locks.state.lock().groups.is_empty());
    }

    #[test]
    fn names_have_a_length_and_no_control_characters() {
        let request = |client_id: &str, topic: &str| LockRequest {
            client_id: client_id.to_owned(),
            consumer_group: "g".into(),
            mq_set: vec![QueueName {
                topic: topic.to_owned(),
                ..queue(0)
            }],
        };
        assert!(request("raw@1", &"T".repeat(NAME_BYTES_MAX)).has_names());
        assert!(!request("raw@1", &"T".repeat(NAME_BYTES_MAX + 1)).has_names());
        assert!(!request("raw\0", "T").has_names());
    }

    #[test]
    fn reads_and_writes_rocketmqs_bodies() {
        let body = br#"{"clientId":"raw@1","consumerGroup":"g","mqSet":[
            {"brokerName":"broker-a","queueId":0,"topic":"T"}],"onlyThisBroker":false}"#;
        let request: LockRequest = serde_json::from_slice(body).unwrap();
        assert_eq!(request.mq_set, vec![queue(0)]);
        let reply = serde_json::to_string(&LockReply {
            granted: vec![queue(0)],
        })
        .unwrap();
        let golden = r#"{"lockOKMQSet":[{"brokerName":"broker-a","queueId":0,"topic":"T"}]}"#;
        assert_eq!(reply, golden);
    }
}
