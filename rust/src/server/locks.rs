//! Queue locks of orderly consumers (codes 41 and 42): in memory, expiring, monotonic.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::limits::LOCK_EXPIRY_MS;
use crate::clock::Clock;

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
    /// Who asks.
    pub client_id: String,
    /// For which group.
    pub consumer_group: String,
    /// Which queues.
    pub mq_set: Vec<QueueName>,
}

/// Body of the reply to 41.
#[derive(Debug, Serialize)]
pub struct LockReply {
    /// The queues now held by the client.
    #[serde(rename = "lockOKMQSet")]
    pub granted: Vec<QueueName>,
}

#[derive(Debug)]
struct Lock {
    client_id: String,
    renewed_ms: i64,
}

/// group -> queue -> owner.
pub struct Locks {
    clock: Arc<dyn Clock>,
    groups: Mutex<HashMap<String, HashMap<QueueName, Lock>>>,
}

impl Locks {
    /// No locks yet; `clock` is read for its monotonic time only.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            groups: Mutex::default(),
        }
    }

    /// Grants each queue that is free, already the client's, or expired; returns those.
    pub fn lock(&self, group: &str, client_id: &str, queues: Vec<QueueName>) -> Vec<QueueName> {
        let now_ms = self.clock.monotonic_ms();
        let mut groups = self.groups.lock();
        let held = groups.entry(group.to_owned()).or_default();
        let mut granted = Vec::with_capacity(queues.len());
        for queue in queues {
            let owner = held.get(&queue);
            let free = owner.is_none_or(|lock| {
                lock.client_id == client_id || now_ms - lock.renewed_ms > LOCK_EXPIRY_MS
            });
            if free {
                let lock = Lock {
                    client_id: client_id.to_owned(),
                    renewed_ms: now_ms,
                };
                held.insert(queue.clone(), lock);
                granted.push(queue);
            }
        }
        granted
    }

    /// Frees those of the queues that the client holds.
    pub fn unlock(&self, group: &str, client_id: &str, queues: &[QueueName]) {
        let mut groups = self.groups.lock();
        let Some(held) = groups.get_mut(group) else {
            return;
        };
        for queue in queues {
            if held
                .get(queue)
                .is_some_and(|lock| lock.client_id == client_id)
            {
                held.remove(queue);
            }
        }
        if held.is_empty() {
            groups.remove(group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    fn queue(queue_id: i32) -> QueueName {
        QueueName {
            broker_name: "broker-a".into(),
            queue_id,
            topic: "T".into(),
        }
    }

    #[test]
    fn grants_free_own_and_expired_queues_only() {
        let clock = ManualClock::at(0);
        let locks = Locks::new(clock.clone());
        let both = || vec![queue(0), queue(1)];
        assert_eq!(locks.lock("g", "one", vec![queue(0)]), vec![queue(0)]);
        assert_eq!(locks.lock("g", "two", both()), vec![queue(1)]);
        assert_eq!(locks.lock("g", "one", both()), vec![queue(0)]);
        assert_eq!(locks.lock("other", "two", both()), both());
        clock.advance(LOCK_EXPIRY_MS);
        assert_eq!(
            locks.lock("g", "one", vec![queue(0)]),
            vec![queue(0)],
            "renewed in time"
        );
        clock.advance(1);
        assert_eq!(
            locks.lock("g", "three", both()),
            vec![queue(1)],
            "two's lock expired"
        );
    }

    #[test]
    fn only_the_owner_unlocks() {
        let locks = Locks::new(ManualClock::at(0));
        locks.lock("g", "one", vec![queue(0)]);
        locks.unlock("g", "two", &[queue(0)]);
        assert!(locks.lock("g", "two", vec![queue(0)]).is_empty());
        locks.unlock("g", "one", &[queue(0)]);
        assert_eq!(locks.lock("g", "two", vec![queue(0)]), vec![queue(0)]);
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
