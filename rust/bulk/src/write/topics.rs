//! The queues of topics: used in rotation, or chosen by the hash of a key.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use mq_format::message::java_hash;

use super::error::WriteError;

/// A queue to send to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// The broker's name.
    pub broker: Arc<str>,
    /// The master's "host:port" for connecting.
    pub address: Arc<str>,
    /// The queue's number.
    pub id: i32,
}

/// Knows the routes of topics.
pub trait Routes {
    /// Returns the writable queues of a topic, in RocketMQ's order. is_again: a send failed, so ask
    /// the NameServer. The error ends the write, unless the topic's queues are known already.
    fn queues(
        &mut self,
        topic: &str,
        is_again: bool,
    ) -> Result<Vec<Queue>, Arc<dyn Error + Send + Sync>>;
}

/// A topic of the write.
#[derive(Debug)]
pub(super) struct Topic {
    pub name: Arc<str>,
    /// The current queues, used in rotation.
    queues: Vec<Queue>,
    turn: usize,
    /// The queues at the start, so that a key keeps its queue; with their current addresses.
    hashed: Vec<Queue>,
    /// Whether a send failed since the queues were last requested.
    pub is_stale: bool,
}

impl Topic {
    /// Returns the queue of a key, as `SelectMessageQueueByHash` chooses it.
    pub fn queue_of(&self, key: &str) -> usize {
        java_hash(key).unsigned_abs() as usize % self.hashed.len()
    }

    /// Returns a queue by its index.
    pub fn hashed(&self, place: usize) -> &Queue {
        &self.hashed[place]
    }

    /// Returns the next queue in rotation, if possible not of the broker that failed.
    pub fn next(&mut self, failed: Option<&str>) -> &Queue {
        for _ in 0..self.queues.len() {
            self.turn += 1;
            let queue = &self.queues[self.turn % self.queues.len()];
            if failed != Some(&*queue.broker) {
                break;
            }
        }
        &self.queues[self.turn % self.queues.len()]
    }

    fn renew(&mut self, queues: Vec<Queue>) {
        for known in &mut self.hashed {
            let mut same = queues.iter().filter(|queue| queue.broker == known.broker);
            if let Some(queue) = same.next() {
                known.address = queue.address.clone();
            }
        }
        self.queues = queues;
    }
}

/// The topics of a write, numbered in the order in which rows name them.
#[derive(Debug, Default)]
pub(super) struct Topics {
    topics: Vec<Topic>,
    numbers: HashMap<Arc<str>, usize>,
    /// The topic of the previous row, which usually is also the topic of the next row.
    last: usize,
    first_queue: usize,
}

impl Topics {
    /// first_queue: number of the first queue in rotation.
    pub fn new(first_queue: usize) -> Self {
        Self {
            first_queue,
            ..Self::default()
        }
    }

    /// Returns a topic by its number.
    pub fn get(&mut self, number: usize) -> &mut Topic {
        &mut self.topics[number]
    }

    /// Returns the number of a topic; requests its queues the first time.
    pub fn number(&mut self, name: &str, routes: &mut dyn Routes) -> Result<usize, WriteError> {
        let is_last = |topic: &Topic| &*topic.name == name;
        if self.topics.get(self.last).is_some_and(is_last) {
            return Ok(self.last);
        }
        let known = self.numbers.get(name);
        self.last = match known {
            Some(number) => *number,
            None => self.add(name, routes)?,
        };
        Ok(self.last)
    }

    fn add(&mut self, name: &str, routes: &mut dyn Routes) -> Result<usize, WriteError> {
        let queues = routes.queues(name, false).map_err(WriteError::NoRoute)?;
        if queues.is_empty() {
            let text = format!("topic {name} has no queue to send to");
            let error: Box<dyn Error + Send + Sync> = text.into();
            return Err(WriteError::NoRoute(error.into()));
        }
        let name: Arc<str> = name.into();
        let number = self.topics.len();
        self.topics.push(Topic {
            name: name.clone(),
            hashed: queues.clone(),
            queues,
            turn: self.first_queue,
            is_stale: false,
        });
        self.numbers.insert(name, number);
        Ok(number)
    }

    /// Requests the queues of topics with failed sends again; keeps the old ones after an error.
    pub fn renew(&mut self, routes: &mut dyn Routes) {
        for topic in self.topics.iter_mut().filter(|topic| topic.is_stale) {
            topic.is_stale = false;
            let found = routes.queues(&topic.name, true).unwrap_or_default();
            if !found.is_empty() {
                topic.renew(found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(broker: &str, address: &str, id: i32) -> Queue {
        Queue {
            broker: broker.into(),
            address: address.into(),
            id,
        }
    }

    struct Fixed(Vec<Queue>);

    impl Routes for Fixed {
        fn queues(
            &mut self,
            _topic: &str,
            _is_again: bool,
        ) -> Result<Vec<Queue>, Arc<dyn Error + Send + Sync>> {
            Ok(self.0.clone())
        }
    }

    fn two_brokers() -> Vec<Queue> {
        let queues = ["a", "b"].map(|broker| [0, 1].map(|id| queue(broker, broker, id)));
        queues.concat()
    }

    /// The expected numbers come from Java's `Math.abs(key.hashCode()) % 4`.
    #[test]
    fn a_key_goes_where_rocketmq_sends_it() {
        let mut topics = Topics::new(0);
        let number = topics.number("T", &mut Fixed(two_brokers())).unwrap();
        let topic = topics.get(number);
        for (key, hash) in [
            ("", 0_i32),
            ("order-1", -1_207_111_310),
            ("polygenelubricants", i32::MIN),
        ] {
            assert_eq!(
                topic.queue_of(key),
                hash.unsigned_abs() as usize % 4,
                "{key}"
            );
        }
    }

    #[test]
    fn queues_are_taken_in_turn_and_a_failed_broker_is_avoided() {
        let mut topics = Topics::new(3);
        let number = topics.number("T", &mut Fixed(two_brokers())).unwrap();
        let topic = topics.get(number);
        let mut taken = |failed| {
            let queue = topic.next(failed);
            (queue.broker.to_string(), queue.id)
        };
        assert_eq!(taken(None), ("a".to_owned(), 0));
        assert_eq!(taken(None), ("a".to_owned(), 1));
        assert_eq!(taken(Some("b")), ("a".to_owned(), 0));
        assert_eq!(taken(Some("a")), ("b".to_owned(), 0));
    }

    #[test]
    fn a_changed_route_moves_no_key() {
        let mut topics = Topics::new(0);
        let number = topics.number("T", &mut Fixed(two_brokers())).unwrap();
        topics.get(number).is_stale = true;
        topics.renew(&mut Fixed(vec![queue("b", "elsewhere", 0)]));
        let topic = topics.get(number);
        let places = [0, 1, 2, 3].map(|place| topic.hashed(place).address.to_string());
        assert_eq!(places, ["a", "a", "elsewhere", "elsewhere"]);
        assert_eq!(&*topic.next(None).address, "elsewhere");
    }
}
