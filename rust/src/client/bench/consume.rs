//! Reading a backlog: every worker keeps one pull in flight for each of its queues.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::exchange::Exchange;
use super::pace::{Pace, run_workers};
use super::report::{Meter, Report};
use super::route::{Purpose, Target, targets};
use super::{BenchError, Consume};
use crate::format::remoting::{Frame, Head};

const PULL_MESSAGE: i32 = 11;
const GET_MAX_OFFSET: i32 = 30;
const GET_MIN_OFFSET: i32 = 31;
/// Pull flag: the subscription is in the request, no heartbeat is needed.
const INLINE_SUBSCRIPTION: i32 = 4;

/// Response codes of a pull: FOUND, then those that only move the position.
const FOUND: i32 = 0;
const PULL_NOT_FOUND: i32 = 19;
const PULL_RETRY_IMMEDIATELY: i32 = 20;
const PULL_OFFSET_MOVED: i32 = 21;

pub(super) fn run(settings: &Consume, stop: &AtomicBool) -> Result<Report, BenchError> {
    let mut workers = Vec::new();
    for target in targets(&settings.load, Purpose::Read)? {
        let parts = settings.load.threads.min(target.queues as usize);
        for part in 0..parts {
            workers.push(Worker::connect(settings, &target, part, parts)?);
        }
    }
    let pace = Pace::start(&settings.load, stop);
    let meters = run_workers(workers, |worker| worker.run(&pace))?;
    Ok(pace.report(meters))
}

/// One connection and the queues it reads.
struct Worker<'a> {
    settings: &'a Consume,
    exchange: Exchange,
    /// A queue's place here is the opaque of its pulls.
    queues: Vec<Queue>,
    outgoing: Vec<u8>,
    meter: Meter,
}

/// A queue's backlog and the position in it.
struct Queue {
    id: i32,
    begin: i64,
    position: i64,
    end: i64,
    sent_at: Instant,
}

impl<'a> Worker<'a> {
    /// Takes every `parts`th queue of the target, from `part` on.
    fn connect(
        settings: &'a Consume,
        target: &Target,
        part: usize,
        parts: usize,
    ) -> Result<Self, BenchError> {
        let mut exchange = Exchange::connect(&target.address, settings.load.timeout())?;
        let mut queues = Vec::new();
        for id in (0..target.queues).skip(part).step_by(parts) {
            let fields = [
                ("topic", settings.load.topic.as_str().into()),
                ("queueId", id.into()),
            ];
            let mut offset = |code| {
                let answer = exchange.call(code, &fields)?.accepted(&target.address)?;
                answer.offset(&target.address)
            };
            let (begin, end) = (offset(GET_MIN_OFFSET)?, offset(GET_MAX_OFFSET)?);
            queues.push(Queue {
                id,
                begin,
                position: begin,
                end,
                sent_at: Instant::now(),
            });
        }
        Ok(Self {
            settings,
            exchange,
            queues,
            outgoing: Vec::new(),
            meter: Meter::new(),
        })
    }

    fn run(mut self, pace: &Pace<'_>) -> Result<Meter, BenchError> {
        let mut waiting = 0;
        let mut ready: Vec<usize> = (0..self.queues.len()).collect();
        loop {
            let now = Instant::now();
            for index in ready.drain(..) {
                if self.has_more(index) && pace.go_on(now, self.settings.pull_max as u64) {
                    self.queues[index].sent_at = now;
                    self.prepare(index);
                    waiting += 1;
                }
            }
            if waiting == 0 {
                return Ok(self.meter);
            }
            self.exchange.send(&self.outgoing)?;
            self.outgoing.clear();
            self.exchange.receive()?;
            self.take_replies(pace, &mut ready)?;
            waiting -= ready.len();
        }
    }

    /// Whether the queue has messages left; a repeated run begins it again.
    fn has_more(&mut self, index: usize) -> bool {
        let queue = &mut self.queues[index];
        if queue.position >= queue.end && self.settings.repeat {
            queue.position = queue.begin;
        }
        queue.position < queue.end
    }

    fn prepare(&mut self, index: usize) {
        let settings = self.settings;
        let queue = &self.queues[index];
        let fields = [
            ("consumerGroup", settings.group.as_str().into()),
            ("topic", settings.load.topic.as_str().into()),
            ("queueId", queue.id.into()),
            ("queueOffset", queue.position.into()),
            ("maxMsgNums", (settings.pull_max as i64).into()),
            ("sysFlag", INLINE_SUBSCRIPTION.into()),
            ("commitOffset", 0.into()),
            ("suspendTimeoutMillis", 0.into()),
            ("subscription", settings.expression.as_str().into()),
            ("subVersion", 0.into()),
            ("expressionType", "TAG".into()),
        ];
        let head = Head::request(PULL_MESSAGE, index as i32, settings.load.headers.into());
        head.encode(&fields, b"", &mut self.outgoing);
    }

    /// Counts what the replies brought and moves the positions; answered queues become ready.
    fn take_replies(&mut self, pace: &Pace<'_>, ready: &mut Vec<usize>) -> Result<(), BenchError> {
        let now = Instant::now();
        let counted = pace.counted(now);
        let address = self.exchange.address.clone();
        while let Some(frame) = self.exchange.next_frame()? {
            let index = frame.opaque as usize;
            let Some(queue) = self.queues.get_mut(index).filter(|_| frame.is_response()) else {
                continue;
            };
            let next = next_offset(&frame, &address)?;
            // A broker that keeps the position would be asked for ever.
            queue.position = if next > queue.position {
                next
            } else {
                queue.end
            };
            ready.push(index);
            if let (FOUND, Some(at)) = (frame.code, counted) {
                let (messages, bytes) = (count_records(frame.body), frame.body.len() as u64);
                self.meter.count(at, now - queue.sent_at, messages, bytes);
            }
        }
        Ok(())
    }
}

/// Where the next pull begins; an error if the pull was refused.
fn next_offset(frame: &Frame<'_>, address: &str) -> Result<i64, BenchError> {
    match frame.code {
        FOUND | PULL_NOT_FOUND | PULL_RETRY_IMMEDIATELY | PULL_OFFSET_MOVED => {}
        code => {
            let remark = frame.remark.as_deref().unwrap_or_default().to_owned();
            return Err(BenchError::Refused {
                address: address.to_owned(),
                code,
                remark,
            });
        }
    }
    let next = frame
        .ext
        .get("nextBeginOffset")
        .and_then(|text| text.parse().ok());
    next.ok_or_else(|| BenchError::Wire {
        address: address.to_owned(),
        cause: "a pull reply without nextBeginOffset".to_owned(),
    })
}

/// Stored messages lie one after another, each beginning with its size.
fn count_records(mut body: &[u8]) -> u64 {
    let mut count = 0;
    while let Some(size) = body.first_chunk::<4>() {
        let size = u32::from_be_bytes(*size) as usize;
        let Some(rest) = body.get(size.max(4)..) else {
            break;
        };
        body = rest;
        count += 1;
    }
    count
}
