//! First and last offsets of queues: for positions to read from, and to count stored messages.

use std::time::{Duration, Instant};

use super::exchange::Exchange;
use super::route::{Broker, QueueAt};
use super::{BenchError, Load};
use mq_format::codes::GET_MAX_OFFSET;
use mq_format::remoting::{Head, Serialize};

/// Interval between two checks whether a broker's queues have caught up with its log.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// Asks a broker for one offset of each queue.
pub(super) fn offsets(
    exchange: &mut Exchange,
    code: i32,
    load: &Load,
    queues: &[QueueAt],
) -> Result<Vec<i64>, BenchError> {
    let encode = |index: usize, opaque, out: &mut Vec<u8>| {
        let QueueAt { topic, id } = queues[index];
        let topic = load.topic_name(topic);
        let fields = [("topic", topic.as_str().into()), ("queueId", id.into())];
        let head = Head::request(code, opaque, Serialize::Json);
        load.encode(&head, &fields, b"", out);
    };
    let answers = exchange.call_all(queues.len(), encode)?;
    let address = &exchange.address;
    let offset = |answer: super::exchange::Answer| answer.accepted(address)?.offset(address);
    answers.into_iter().map(offset).collect()
}

/// Number of messages stored, and when the queues were last seen to grow.
pub(super) struct Moved {
    pub messages: u64,
    pub at: Instant,
}

/// Counts the messages that a run stores, by the growth of all queues together.
pub(super) struct Stored<'a> {
    load: &'a Load,
    brokers: &'a [Broker],
    before: i64,
}

impl<'a> Stored<'a> {
    /// Notes the current ends of the queues.
    pub fn begin(load: &'a Load, brokers: &'a [Broker]) -> Result<Self, BenchError> {
        let mut stored = Self::from_empty(load, brokers);
        stored.before = stored.sum()?;
        Ok(stored)
    }

    /// The same for queues that were empty before the run.
    pub fn from_empty(load: &'a Load, brokers: &'a [Broker]) -> Self {
        Self {
            load,
            brokers,
            before: 0,
        }
    }

    /// Messages stored since then. Waits until there are `expected`, or none came for the timeout,
    /// because a queue follows the log with a delay.
    pub fn moved(&self, expected: u64) -> Result<Moved, BenchError> {
        let mut moved = Moved {
            messages: 0,
            at: Instant::now(),
        };
        loop {
            let now_moved = self
                .sum()?
                .saturating_sub(self.before)
                .max(0)
                .cast_unsigned();
            if now_moved > moved.messages {
                moved = Moved {
                    messages: now_moved,
                    at: Instant::now(),
                };
            }
            if moved.messages >= expected || moved.at.elapsed() >= self.load.timeout() {
                return Ok(moved);
            }
            std::thread::sleep(ASK_AGAIN);
        }
    }

    fn sum(&self) -> Result<i64, BenchError> {
        let mut sum = 0;
        for broker in self.brokers.iter().filter(|broker| !broker.is_template) {
            let mut exchange = Exchange::to_broker(&broker.address, self.load)?;
            let ends = offsets(&mut exchange, GET_MAX_OFFSET, self.load, &broker.queues)?;
            sum += ends.iter().sum::<i64>();
        }
        Ok(sum)
    }
}
