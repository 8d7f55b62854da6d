//! One connection that reads queues, with one pull in flight for each queue.

use std::time::Instant;

use super::exchange::Exchange;
use super::offsets::offsets;
use super::records::records;
use super::report::Meter;
use super::route::QueueAt;
use super::{BenchError, Consume};
use mq_format::codes::{
    GET_MAX_OFFSET, GET_MIN_OFFSET, PULL_MESSAGE, PULL_NOT_FOUND, PULL_OFFSET_MOVED,
    PULL_RETRY_IMMEDIATELY, SUCCESS, UPDATE_CONSUMER_OFFSET,
};
use mq_format::remoting::{FieldValue, Frame, Head};

/// Pull flag: the broker commits `commitOffset`.
const COMMIT: i32 = 1;
/// Pull flag: the broker may hold the pull until a message comes.
const SUSPEND: i32 = 2;
/// Pull flag: the subscription is in the request, no heartbeat is needed.
const INLINE_SUBSCRIPTION: i32 = 4;
/// How long the broker may hold a pull; the value that clients send.
const SUSPEND_MS: i64 = 15_000;

/// A reply that brought messages.
pub(super) struct Arrival<'a> {
    pub body: &'a [u8],
    pub messages: u64,
    pub asked_at: Instant,
    pub now: Instant,
}

/// A queue's backlog and the position in it.
struct Queue {
    at: QueueAt,
    begin: i64,
    position: i64,
    end: i64,
    asked_at: Instant,
    is_refused: bool,
}

/// One connection and the queues it reads.
pub(super) struct Reader<'a> {
    settings: &'a Consume,
    group: String,
    exchange: Exchange,
    /// The index of a queue is the opaque of its pulls.
    queues: Vec<Queue>,
    /// Queues without a pull in flight.
    ready: Vec<usize>,
    received: u64,
    missing: u64,
    repeated: u64,
    damaged: u64,
}

impl<'a> Reader<'a> {
    /// Asks for the queues' first and last offsets; a tail begins at the last.
    pub fn connect(
        settings: &'a Consume,
        group: usize,
        address: &str,
        queues: &[QueueAt],
    ) -> Result<Self, BenchError> {
        let load = &settings.load;
        let mut exchange = Exchange::to_broker(address, load)?;
        let ends = offsets(&mut exchange, GET_MAX_OFFSET, load, queues)?;
        let begins = if settings.tail {
            ends.clone()
        } else {
            offsets(&mut exchange, GET_MIN_OFFSET, load, queues)?
        };
        let asked_at = Instant::now();
        let queue = |((at, begin), end): ((&QueueAt, i64), i64)| Queue {
            at: *at,
            begin,
            position: begin,
            end,
            asked_at,
            is_refused: false,
        };
        let queues: Vec<Queue> = queues.iter().zip(begins).zip(ends).map(queue).collect();
        Ok(Self {
            settings,
            group: settings.group_name(group),
            exchange,
            ready: (0..queues.len()).collect(),
            queues,
            received: 0,
            missing: 0,
            repeated: 0,
            damaged: 0,
        })
    }

    /// Reads until `is_over`, or until the end of the backlog; passes each reply with messages to
    /// `take`. Adds the received and refused messages to `meter` at the end.
    pub fn read_all(
        &mut self,
        meter: &mut Meter,
        is_over: &dyn Fn(Instant) -> bool,
        take: &mut dyn FnMut(&mut Meter, &Arrival<'_>),
    ) -> Result<(), BenchError> {
        let outcome = self.pull_all(meter, is_over, take);
        meter.total("received", self.received);
        meter.total("missing", self.missing);
        meter.total("repeated", self.repeated);
        meter.total("damaged", self.damaged);
        let outcome = outcome.and_then(|()| self.commit());
        if let Err(failure) = &outcome {
            meter.fail(failure);
        }
        outcome
    }

    fn pull_all(
        &mut self,
        meter: &mut Meter,
        is_over: &dyn Fn(Instant) -> bool,
        take: &mut dyn FnMut(&mut Meter, &Arrival<'_>),
    ) -> Result<(), BenchError> {
        let begun = Instant::now();
        let mut waiting = 0;
        loop {
            let now = Instant::now();
            let is_over = is_over(now);
            if !is_over {
                waiting += self.ask(now);
            }
            if waiting == 0 || (is_over && self.settings.tail) {
                return Ok(()); // long polls of a tail end with the connection
            }
            self.exchange.flush()?;
            let heard = if self.settings.tail || self.exchange.is_writing() {
                self.exchange.receive_until(now + super::pace::LOOK_UP)?
            } else {
                self.exchange.receive()?
            };
            if heard {
                let before = self.ready.len();
                self.take_replies(meter, take)?;
                waiting -= self.ready.len() - before;
            } else if !self.settings.tail {
                self.exchange.check_alive(Instant::now(), begun)?;
            }
        }
    }

    /// Prepares a pull for each ready queue with messages left; returns the number of pulls.
    fn ask(&mut self, now: Instant) -> usize {
        let mut asked = 0;
        for index in std::mem::take(&mut self.ready) {
            if self.has_more(index) {
                self.queues[index].asked_at = now;
                self.prepare(index);
                asked += 1;
            }
        }
        asked
    }

    /// Whether the queue has messages left; a repeating run starts the queue again.
    fn has_more(&mut self, index: usize) -> bool {
        let queue = &mut self.queues[index];
        if queue.position >= queue.end && self.settings.repeat {
            queue.position = queue.begin;
        }
        !queue.is_refused && (self.settings.tail || queue.position < queue.end)
    }

    fn prepare(&mut self, index: usize) {
        let settings = self.settings;
        let queue = &self.queues[index];
        let mut flags = INLINE_SUBSCRIPTION;
        if settings.tail {
            flags |= SUSPEND;
        }
        let committed = if settings.commit {
            flags |= COMMIT;
            queue.position
        } else {
            0
        };
        let topic = settings.load.topic_name(queue.at.topic);
        let fields: [(&str, FieldValue<'_>); 11] = [
            ("consumerGroup", self.group.as_str().into()),
            ("topic", topic.as_str().into()),
            ("queueId", queue.at.id.into()),
            ("queueOffset", queue.position.into()),
            ("maxMsgNums", (settings.pull_max as i64).into()),
            ("sysFlag", flags.into()),
            ("commitOffset", committed.into()),
            ("suspendTimeoutMillis", SUSPEND_MS.into()),
            ("subscription", settings.expression.as_str().into()),
            ("subVersion", 0.into()),
            ("expressionType", "TAG".into()),
        ];
        let head = Head::request(PULL_MESSAGE, index as i32, settings.load.headers.into());
        settings
            .load
            .encode(&head, &fields, b"", self.exchange.outgoing());
    }

    /// Passes on the messages of the replies and moves the positions; answered queues become ready.
    fn take_replies(
        &mut self,
        meter: &mut Meter,
        take: &mut dyn FnMut(&mut Meter, &Arrival<'_>),
    ) -> Result<(), BenchError> {
        let now = Instant::now();
        let address = self.exchange.address.clone();
        while let Some(frame) = self.exchange.next_frame()? {
            let index = frame.opaque as usize;
            let Some(queue) = self.queues.get_mut(index).filter(|_| frame.is_response()) else {
                continue;
            };
            self.ready.push(index);
            let Some(next) = next_offset(&frame, &address)? else {
                meter.refuse(frame.code, frame.remark.as_deref().unwrap_or_default());
                queue.is_refused = true;
                continue;
            };
            if frame.code == SUCCESS {
                let counts = queue.count(frame.body);
                self.received += counts.messages;
                self.damaged += counts.damaged;
                if self.settings.takes_all() {
                    self.missing += counts.missing;
                    self.repeated += counts.repeated;
                }
                let arrival = Arrival {
                    body: frame.body,
                    messages: counts.messages,
                    asked_at: queue.asked_at,
                    now,
                };
                take(meter, &arrival);
            } else if self.settings.takes_all() && next > queue.position {
                self.missing += next.abs_diff(queue.position);
            }
            queue.go_to(next, self.settings.tail);
        }
        Ok(())
    }

    /// Commits the final positions, because each pull commits only the position at which it began.
    fn commit(&mut self) -> Result<(), BenchError> {
        if !self.settings.commit {
            return Ok(());
        }
        let (queues, group) = (&self.queues, &self.group);
        let load = &self.settings.load;
        let encode = |index: usize, opaque, out: &mut Vec<u8>| {
            let Queue { at, position, .. } = &queues[index];
            let topic = load.topic_name(at.topic);
            let fields = [
                ("consumerGroup", group.as_str().into()),
                ("topic", topic.as_str().into()),
                ("queueId", at.id.into()),
                ("commitOffset", (*position).into()),
            ];
            let head = Head::request(UPDATE_CONSUMER_OFFSET, opaque, load.headers.into());
            load.encode(&head, &fields, b"", out);
        };
        let answers = self.exchange.call_all(queues.len(), encode)?;
        for answer in answers {
            answer.accepted(&self.exchange.address)?;
        }
        Ok(())
    }
}

/// The messages of a reply.
struct Counts {
    messages: u64,
    missing: u64,
    repeated: u64,
    damaged: u64,
}

impl Queue {
    /// Counts the records, and the queue offsets that are missing or repeated.
    fn count(&self, body: &[u8]) -> Counts {
        let mut counts = Counts {
            messages: 0,
            missing: 0,
            repeated: 0,
            damaged: 0,
        };
        let mut expected = self.position;
        for record in records(body) {
            let Ok(record) = record else {
                counts.damaged += 1;
                expected += 1;
                continue;
            };
            counts.messages += 1;
            let Some(offset) = record.queue_offset() else {
                continue;
            };
            if offset < expected {
                counts.repeated += 1;
                continue;
            }
            counts.missing += offset.abs_diff(expected);
            expected = offset + 1;
        }
        counts
    }

    fn go_to(&mut self, next: i64, is_tail: bool) {
        if next > self.position {
            self.position = next;
        } else if !is_tail {
            // A broker that does not move the position would be asked without end.
            self.position = self.end;
        }
    }
}

/// The offset of the next pull; None if this pull was refused.
fn next_offset(frame: &Frame<'_>, address: &str) -> Result<Option<i64>, BenchError> {
    if !matches!(
        frame.code,
        SUCCESS | PULL_NOT_FOUND | PULL_RETRY_IMMEDIATELY | PULL_OFFSET_MOVED
    ) {
        return Ok(None);
    }
    let next = frame.ext.get("nextBeginOffset");
    let next = next.and_then(|text| text.parse().ok());
    next.map(Some).ok_or_else(|| BenchError::Wire {
        address: address.to_owned(),
        cause: "a pull reply without nextBeginOffset".to_owned(),
    })
}
