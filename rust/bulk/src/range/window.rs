//! Which pulls of a range are in flight, and their results in queue order. No I/O, no clock.
//!
//! The range is cut into blocks. Each block has at most one pull in flight and continues at the
//! offset that the reply names. The newest block ends where its reply ends, so that most blocks
//! need one pull.

use std::collections::VecDeque;

use mq_format::codes::{PULL_NOT_FOUND, PULL_OFFSET_MOVED, SUCCESS};

use super::check::{Kept, Rules};
use super::loss::{Loss, LossKind};
use super::stride::Stride;

/// Bytes that a waiting part counts in addition to its records, so that empty parts are limited
/// too.
const PART_BYTES: usize = 256;

/// Limits of a reader. Windows that are read one after another share them.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest number of messages per pull.
    pub count_max: i32,
    /// Pulls in flight.
    pub in_flight_max: usize,
    /// Bytes that wait to be taken, including `PART_BYTES` per reply. At this limit no pull is
    /// sent; each pull in flight counts as the bytes of the largest reply so far. So at most two
    /// such replies exceed the limit: the one that reaches it, and the one for which the caller
    /// waits. A reply that is larger than all before exceeds it by the difference.
    pub waiting_bytes_max: usize,
}

/// Pulls and bytes of all windows of a reader.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Pulls in flight.
    pub in_flight: usize,
    /// Bytes that wait to be taken.
    pub waiting_bytes: usize,
    /// Bytes of the largest reply so far; each pull in flight may return as many.
    reply_bytes: usize,
}

impl Load {
    fn has_room(&self, limits: &Limits) -> bool {
        let coming = self.in_flight * (self.reply_bytes + PART_BYTES);
        self.waiting_bytes + coming < limits.waiting_bytes_max
    }
}

/// A pull to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pull {
    /// The block of the pull; unique among the pulls in flight.
    pub block: u64,
    /// The first offset.
    pub offset: i64,
    /// Largest number of messages.
    pub count: i32,
    /// Whether it searches for a damaged record, message by message.
    is_single: bool,
}

/// A broker's reply to a pull, with one of the four codes that end a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    /// Its code.
    pub code: i32,
    /// The header's nextBeginOffset.
    pub next: i64,
    /// Records, if the code is success.
    pub body: Vec<u8>,
}

/// The result for the offsets from `first` to before `next`. Parts follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The first offset.
    pub first: i64,
    /// The first offset of the next part.
    pub next: i64,
    /// Whole, checked records of these offsets, in order.
    pub records: Vec<u8>,
    /// The number of records.
    pub messages: i64,
    /// Offsets that should have a record but have none.
    pub losses: Vec<Loss>,
}

#[derive(Debug)]
struct Block {
    position: i64,
    end: i64,
    is_in_flight: bool,
    /// Up to this offset each message is pulled alone, because a reply had a damaged record.
    single_until: i64,
    parts: VecDeque<Part>,
}

/// The pulls and the results of a range.
#[derive(Debug)]
pub(super) struct Window {
    limits: Limits,
    rules: Rules,
    stride: Stride,
    /// The end of the range, and the start of the next block.
    end: i64,
    cursor: i64,
    /// The number of the first of `blocks`.
    front: u64,
    blocks: VecDeque<Block>,
}

impl Window {
    /// Creates the window of the offsets from `first` to before `end`.
    pub fn new(first: i64, end: i64, rules: Rules, limits: Limits) -> Self {
        Self {
            stride: Stride::new(limits.count_max.into(), rules.is_filtered),
            limits,
            rules,
            end,
            cursor: first,
            front: 0,
            blocks: VecDeque::new(),
        }
    }

    /// Returns the next pull to send, if there is room for one. It is in flight until `answer`.
    ///
    /// is_first: whether the caller waits for this window.
    pub fn next_pull(&mut self, load: &mut Load, is_first: bool) -> Option<Pull> {
        if load.in_flight >= self.limits.in_flight_max.max(1) {
            return None;
        }
        let has_room = load.has_room(&self.limits);
        let index = self.blocks.iter().position(Block::is_ready);
        let index = match index {
            // The caller waits for the first block, so its pull is sent even without room.
            Some(0) if is_first && self.blocks[0].parts.is_empty() => 0,
            Some(index) if has_room => index,
            None if has_room || (is_first && self.blocks.is_empty()) => self.cut()?,
            _ => return None,
        };
        let block = &mut self.blocks[index];
        block.is_in_flight = true;
        load.in_flight += 1;
        let is_single = block.position < block.single_until;
        let rest = block.end - block.position;
        let count = if is_single {
            1
        } else {
            rest.min(self.limits.count_max.max(1).into()) as i32
        };
        Some(Pull {
            block: self.front + index as u64,
            offset: block.position,
            count,
            is_single,
        })
    }

    /// Cuts one more block. The first one is alone at first, because its reply shows the block
    /// length.
    fn cut(&mut self) -> Option<usize> {
        let is_probing = !self.stride.is_known() && !self.blocks.is_empty();
        if self.cursor >= self.end || is_probing {
            return None;
        }
        let end = self
            .end
            .min(self.cursor.saturating_add(self.stride.offsets()));
        self.blocks.push_back(Block {
            position: self.cursor,
            end,
            is_in_flight: false,
            single_until: self.cursor,
            parts: VecDeque::new(),
        });
        self.cursor = end;
        Some(self.blocks.len() - 1)
    }

    /// Processes the reply to a pull in flight.
    pub fn answer(&mut self, pull: Pull, reply: Reply, load: &mut Load) {
        load.in_flight -= 1;
        load.reply_bytes = load.reply_bytes.max(reply.body.len());
        let next = self.advance(pull, &reply);
        let is_stuck = reply.next <= pull.offset;
        let (records, last) = match reply.code {
            SUCCESS if is_stuck => (reply.body, i64::MAX),
            SUCCESS => (reply.body, reply.next),
            _ => (Vec::new(), reply.next),
        };
        let index = (pull.block - self.front) as usize;
        let block = &mut self.blocks[index];
        block.is_in_flight = false;
        let part = match self.rules.check(&records, pull.offset, last, next) {
            Err(_) if !pull.is_single => {
                // The damage may come from the network or the broker's memory. Pulling the messages
                // alone also keeps the undamaged ones.
                block.single_until = next;
                return;
            }
            Err(error) => self.rules.damaged(pull.offset, next, error),
            Ok(_) if is_gone(reply.code) => moved(pull.offset, next),
            Ok(kept) => self.rules.part(pull.offset, next, kept, is_stuck, records),
        };
        block.position = next;
        load.waiting_bytes += part.size_bytes();
        block.parts.push_back(part);
    }

    /// Returns where the block continues after a reply; the newest block ends there.
    fn advance(&mut self, pull: Pull, reply: &Reply) -> i64 {
        let index = (pull.block - self.front) as usize;
        let is_last = index + 1 == self.blocks.len() && !pull.is_single;
        let block = &mut self.blocks[index];
        let limit = if is_last { self.end } else { block.end };
        let is_stuck = reply.next <= pull.offset;
        if !is_stuck && !is_gone(reply.code) && !pull.is_single {
            let covered = reply.next - pull.offset;
            self.stride.learn(pull.count.into(), covered);
        }
        // Pulling again at an offset that does not advance would never end.
        let next = if is_stuck {
            block.end
        } else {
            reply.next.min(limit)
        };
        if is_last {
            block.end = next;
            self.cursor = next;
        }
        next
    }

    /// Returns the next result in queue order, if it has arrived.
    pub fn take(&mut self, load: &mut Load) -> Option<Part> {
        let block = self.blocks.front_mut()?;
        let part = block.parts.pop_front()?;
        if block.parts.is_empty() && block.is_done() {
            self.blocks.pop_front();
            self.front += 1;
        }
        load.waiting_bytes -= part.size_bytes();
        Some(part)
    }

    /// Whether the range needs no further pull before a reply arrives.
    pub fn is_asked_for(&self) -> bool {
        self.cursor >= self.end && !self.blocks.iter().any(Block::is_ready)
    }

    /// Whether every offset of the range was taken.
    pub fn is_done(&self) -> bool {
        self.blocks.is_empty() && self.cursor >= self.end
    }
}

impl Block {
    fn is_done(&self) -> bool {
        self.position >= self.end
    }

    fn is_ready(&self) -> bool {
        !self.is_in_flight && !self.is_done()
    }
}

impl Part {
    fn size_bytes(&self) -> usize {
        self.records.len() + PART_BYTES
    }
}

impl Rules {
    /// Builds the part of a reply whose records are good.
    fn part(&self, first: i64, next: i64, kept: Kept, is_stuck: bool, records: Vec<u8>) -> Part {
        let mut records = records;
        records.truncate(kept.size_bytes);
        let is_told = is_stuck || !self.is_filtered; // else the broker left out what does not match
        let kind = if is_stuck {
            LossKind::Stuck
        } else {
            LossKind::Missing
        };
        let missing = kept.missing.into_iter().filter(|_| is_told);
        let losses = missing.map(|(offset, count)| Loss {
            offset,
            count,
            kind: kind.clone(),
        });
        Part {
            first,
            next,
            records,
            messages: kept.messages,
            losses: losses.collect(),
        }
    }

    /// Builds the part of a message that is damaged even when it is pulled alone.
    fn damaged(&self, first: i64, next: i64, error: String) -> Part {
        let count = if self.is_filtered { 1 } else { next - first };
        lost(first, next, count, LossKind::Damaged(error))
    }
}

/// Whether the broker has no message at the offset of the pull.
pub(super) fn is_gone(code: i32) -> bool {
    matches!(code, PULL_OFFSET_MOVED | PULL_NOT_FOUND)
}

fn moved(first: i64, next: i64) -> Part {
    lost(first, next, next - first, LossKind::Moved)
}

fn lost(first: i64, next: i64, count: i64, kind: LossKind) -> Part {
    Part {
        first,
        next,
        records: Vec::new(),
        messages: 0,
        losses: vec![Loss {
            offset: first,
            count,
            kind,
        }],
    }
}
