//! Checks a range of the log on all cores.
//!
//! The range is divided into blocks. The start of a block's first record is known only when the
//! previous block is done. So each block is searched for bytes that look like a record and is
//! checked from there. Its findings count only if the previous block ends at that offset.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;

use super::damage::find;
use crate::scan::log_scanner::{LogRead, LogScanner, Step};
use crate::scan::record::Belief;
use crate::settings::MultiDispatch;
use mq_format::message::{RecordView, sys_flag};

/// Length of a block.
const BLOCK_BYTES: u64 = 8 << 20;
/// Most blocks per round and core.
const BLOCKS_PER_CORE: usize = 8;
/// A smaller range is not worth a thread, bytes.
const PARALLEL_BYTES: u64 = 4 << 20;
/// Bytes of log between two marks.
const MARK_BYTES: u64 = 64 << 10;

/// A part of one log file, by log offsets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub from: u64,
    pub to: u64,
    /// Whether a record starts at `from`, if there is any.
    pub is_chained: bool,
}

/// Facts about the consecutive valid records of a block.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Start of the first record.
    pub first: Option<u64>,
    /// End of the last record.
    pub end: u64,
    /// Start of the last record.
    pub last: Option<u64>,
    /// Whether the end of the last record may be missing.
    pub is_doubtful: bool,
    /// Store time of the last record, milliseconds since the epoch.
    pub last_ms: i64,
    /// Offset and store time of some records in log order, at most one per `MARK_BYTES`.
    pub marks: Vec<(u64, i64)>,
    pub queues: HashMap<String, HashMap<i32, Span>>,
    /// Whether the offsets of each queue increase by one.
    pub is_even: bool,
}

/// The records of one queue in a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    /// Queue offset and log offset of the first record.
    pub first: i64,
    pub first_physical: u64,
    /// Queue offset and log offset of the last record.
    pub last: i64,
    pub last_physical: u64,
}

/// Decides the next blocks to check, and how many at once.
#[derive(Debug)]
pub(crate) struct Rounds {
    cores: usize,
    blocks: usize,
}

impl Rounds {
    pub(crate) fn new() -> Self {
        Self {
            cores: thread::available_parallelism().map_or(1, usize::from),
            blocks: 1,
        }
    }

    /// Restarts with one block: after damage, more damage is likely.
    pub(crate) fn restart(&mut self) {
        self.blocks = 1;
    }

    /// The next blocks from `at` on, where a record starts or the log ends.
    pub(crate) fn next(&mut self, log: &impl LogRead, at: u64, limit: u64) -> Vec<Block> {
        let mut blocks = Vec::with_capacity(self.blocks);
        let mut from = at;
        while from < limit && blocks.len() < self.blocks {
            let file_end = log.next_file_start(from).min(limit);
            let is_file_start = log.next_file_start(from - 1.min(from)) == from;
            let to = file_end.min((from + 1).next_multiple_of(BLOCK_BYTES));
            blocks.push(Block {
                from,
                to,
                is_chained: from == at || is_file_start,
            });
            from = to;
        }
        log.will_read(at, from.min(log.next_file_start(at)));
        self.blocks = (self.blocks * 2).min(self.cores * BLOCKS_PER_CORE);
        blocks
    }

    /// Checks blocks, on all cores if there are enough.
    pub(crate) fn check(
        &self,
        log: &impl LogRead,
        belief: Belief,
        blocks: &[Block],
        limit: u64,
    ) -> Vec<io::Result<Findings>> {
        let bytes: u64 = blocks.iter().map(|block| block.to - block.from).sum();
        let threads = self.cores.min(blocks.len());
        if threads < 2 || bytes < PARALLEL_BYTES {
            let check = |block: &Block| check(log, belief, *block, limit);
            return blocks.iter().map(check).collect();
        }
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some((at, block)) = claim(&next, blocks) {
                let findings = check(log, belief, block, limit);
                done.lock().push((at, findings));
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                // If no thread can be started, this one does all the work.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        let mut done = done.into_inner();
        done.sort_unstable_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, findings)| findings).collect()
    }
}

fn claim(next: &AtomicUsize, blocks: &[Block]) -> Option<(usize, Block)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    blocks.get(at).map(|block| (at, *block))
}

/// Checks the records that start in a block.
pub(crate) fn check(
    log: &impl LogRead,
    belief: Belief,
    block: Block,
    limit: u64,
) -> io::Result<Findings> {
    let is_record = |offset| {
        let mut scanner = LogScanner::from(offset);
        let step = scanner.step(log, limit)?;
        Ok(matches!(step, Step::Record(bytes) if belief.record(offset, bytes).is_some()))
    };
    let first = match block.is_chained {
        true => Some(block.from),
        false => find(log, block.from, block.to, is_record)?,
    };
    let mut findings = Findings {
        first,
        end: first.unwrap_or(block.to),
        is_even: true,
        ..Findings::default()
    };
    let mut scanner = LogScanner::from(findings.end);
    while scanner.offset() < block.to {
        let offset = scanner.offset();
        let Step::Record(bytes) = scanner.step(log, limit)? else {
            break;
        };
        let Some(record) = belief.record(offset, bytes) else {
            break;
        };
        findings.note(offset, &record, belief.multi_dispatch);
        findings.is_doubtful = belief.is_doubtful(&record);
        findings.end = scanner.offset();
    }
    Ok(findings)
}

impl Findings {
    /// The findings of one record.
    pub(crate) fn of(offset: u64, record: &RecordView<'_>, belief: Belief) -> Self {
        let mut findings = Self {
            is_doubtful: belief.is_doubtful(record),
            ..Self::default()
        };
        findings.note(offset, record, belief.multi_dispatch);
        findings
    }

    /// Adds a valid record.
    fn note(&mut self, offset: u64, record: &RecordView<'_>, multi_dispatch: MultiDispatch) {
        self.last = Some(offset);
        self.last_ms = record.store_timestamp_ms;
        let is_due = |(last, _): &(u64, i64)| offset - last >= MARK_BYTES;
        if self.marks.last().is_none_or(is_due) {
            self.marks.push((offset, record.store_timestamp_ms));
        }
        if !sys_flag::is_queued(record.sys_flag) {
            return;
        }
        self.is_even &=
            self.note_queued(offset, (record.topic, record.queue_id), record.queue_offset);
        let further = multi_dispatch.further_queues(record.properties, record.queue_id);
        for (name, queue_id, queue_offset) in further {
            self.note_queued(offset, (name, queue_id), queue_offset);
        }
    }

    /// Adds a queued record; returns whether its queue offset follows the previous one.
    fn note_queued(&mut self, offset: u64, (topic, queue_id): (&str, i32), at: i64) -> bool {
        if !self.queues.contains_key(topic) {
            self.queues.insert(topic.to_owned(), HashMap::new());
        }
        let Some(of_topic) = self.queues.get_mut(topic) else {
            return true;
        };
        let span = of_topic.entry(queue_id).or_insert(Span {
            first: at,
            first_physical: offset,
            last: at.wrapping_sub(1),
            last_physical: offset,
        });
        let follows = at == span.last.wrapping_add(1);
        span.last = at;
        span.last_physical = offset;
        follows
    }
}
