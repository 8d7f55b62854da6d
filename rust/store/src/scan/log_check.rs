//! Checks the log record by record, and finds its end.

use std::io;
use std::path::Path;

use super::blocks::{self, Block, Findings, Rounds, Span};
use super::damage::{LastSeen, next_record};
use super::log_io;
use super::progress::Progress;
use super::repair::{Change, Damage};
use crate::directory::log_facts::{LogFacts, StartedRepair};
use crate::directory::log_files::MISSING_FILES_MAX;
use crate::files::{io_error, offset_name};
use crate::scan::log_scanner::{LogScanner, Step};
use crate::scan::record::Belief;
use crate::settings::MultiDispatch;
use crate::types::StoreError;
use mq_format::message::CheckCrc;
use mq_log::Segments;

/// How the last owner left the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Closed cleanly.
    Clean,
    /// Not closed. Messages stored up to this time reached the disk, milliseconds since the epoch.
    Unclean(i64),
}

/// The records of one queue in a part of the log, as reported by [`LogCheck::run`].
#[derive(Debug, Clone, Copy)]
pub struct Queued<'a> {
    /// The queue.
    pub topic: &'a str,
    pub queue_id: i32,
    /// Queue offsets and log offsets of the first and the last record.
    pub first: i64,
    pub first_physical: u64,
    pub last: i64,
    pub last_physical: u64,
}

/// A check of every record of the log.
pub struct LogCheck<'a> {
    pub(crate) root: &'a Path,
    pub(crate) log: &'a Segments,
    repairs: bool,
    /// The log is a copy of a master's, and must not differ from it.
    pub(crate) is_copy: bool,
    pub(crate) belief: Belief,
    rounds: Rounds,
    pub(crate) seen: LastSeen,
    /// Start of the last valid record, and whether its end may be lost.
    last: Option<(u64, bool)>,
    repaired: Vec<(u64, u64)>,
    changes: Vec<Change>,
    marks: Vec<(u64, i64)>,
    pub(crate) doubts: usize,
    progress: Option<Progress>,
}

/// Why a sequence of valid records ends.
enum Stretch {
    /// The limit is reached.
    End(u64),
    /// A blank record, with no file after it.
    Blank(u64),
    /// No valid record.
    Bad(u64),
}

impl<'a> LogCheck<'a> {
    /// A check of `log`. Damage is repaired if `repairs`, or refused.
    pub fn new(root: &'a Path, log: &'a Segments, repairs: bool, left: Left) -> Self {
        let durable_ms = match left {
            Left::Clean => i64::MAX,
            Left::Unclean(durable_ms) => durable_ms,
        };
        let file_bytes = log.file_size();
        Self {
            root,
            log,
            repairs,
            is_copy: false,
            belief: Belief {
                durable_ms,
                ..Belief::in_all(file_bytes)
            },
            rounds: Rounds::new(),
            seen: LastSeen::default(),
            last: None,
            repaired: Vec::new(),
            changes: Vec::new(),
            marks: Vec::new(),
            doubts: 0,
            progress: None,
        }
    }

    /// Sets whether bodies are compared with their checksums.
    pub(crate) fn with_body_crc(mut self, check: CheckCrc) -> Self {
        self.belief.body_crc = check;
        self
    }

    /// Sets whether the log is a slave's; see `copy.rs`.
    #[must_use]
    pub fn of_copy(mut self, is_copy: bool) -> Self {
        self.is_copy = is_copy;
        self
    }

    /// Logs the progress of the check.
    pub(crate) fn with_progress(mut self, progress: Progress) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Logs the result of the check, which ended at `end`.
    pub(crate) fn log_result(&self, end: u64) {
        let progress = self.progress.as_ref();
        if let Some(line) =
            progress.and_then(|progress| progress.last_line(end, self.repaired.len()))
        {
            tracing::info!("{line}");
        }
    }

    /// Includes the queues of multi-dispatch.
    pub fn with_multi_dispatch(mut self, settings: MultiDispatch) -> Self {
        self.belief.multi_dispatch = settings;
        self
    }

    /// Checks from `start` to the end of the log that a clean stop recorded.
    pub(crate) fn run_to_recorded(
        &mut self,
        start: u64,
        end: u64,
        is_tail_sound: bool,
        on_record: impl Fn(Queued<'_>),
    ) -> Result<u64, StoreError> {
        self.belief.is_end_known = true;
        if !is_tail_sound {
            // The last bytes have changed since the store was closed: find out which.
            self.belief.body_crc = CheckCrc::Yes;
        }
        self.restore_last_files(end)?;
        let end = self.run(start, Some(end), on_record)?;
        if let Some(from) = self.doubtful().filter(|_| !is_tail_sound) {
            self.repair_damage(self.damage(from, end))?;
        }
        self.belief.is_end_known = false;
        Ok(end)
    }

    /// Checks `[from, to)`, which was full of records.
    pub(crate) fn run_known(
        &mut self,
        from: u64,
        to: u64,
        on_record: impl Fn(Queued<'_>),
    ) -> Result<(), StoreError> {
        self.belief.is_end_known = true;
        self.run(from, Some(to), on_record)?;
        self.belief.is_end_known = false;
        Ok(())
    }

    /// Creates missing files at the end with zeros, which the check then finds as damage.
    fn restore_last_files(&mut self, end: u64) -> Result<(), StoreError> {
        let file_bytes = self.log.file_size();
        let last = end.saturating_sub(1) / file_bytes * file_bytes;
        let mut from = match self.log.starts().last() {
            Some(start) => start + file_bytes,
            None if end == 0 => return Ok(()),
            None => last,
        };
        let first = last.saturating_sub(MISSING_FILES_MAX as u64 * file_bytes);
        from = from.max(first);
        while from < end {
            let to = from + file_bytes;
            let what = format!("{}: the file is missing", self.place(from));
            self.may_repair(from, &what)?;
            self.log.fill_in(from, &[0]).map_err(log_io)?;
            self.log.truncate_to(to).map_err(log_io)?;
            from = to;
        }
        Ok(())
    }

    /// Checks the log from `start`, the start of a record, to `limit` or the end of the log, and
    /// returns that offset. Calls `on_record` with the records of each queue.
    pub fn run(
        &mut self,
        start: u64,
        limit: Option<u64>,
        on_record: impl Fn(Queued<'_>),
    ) -> Result<u64, StoreError> {
        let is_to_end = limit.is_none();
        let limit = limit.unwrap_or(self.log.max_offset());
        let mut at = start;
        loop {
            let bad = match self.stretch(at, limit, &on_record)? {
                Stretch::End(end) if is_to_end => return Ok(self.doubtful().unwrap_or(end)),
                // As in RocketMQ, the log ends at a blank record that no file follows, which is
                // then overwritten.
                Stretch::Blank(blank) if is_to_end => return Ok(blank),
                // Nothing may be appended after a blank record in its file.
                Stretch::Blank(blank) => return Ok(self.log.next_file_start(blank).max(limit)),
                Stretch::End(_) => return Ok(limit),
                Stretch::Bad(bad) => bad,
            };
            // No bytes follow a doubtful record directly, so its end is missing.
            let from = self.doubtful().unwrap_or(bad);
            at = match self.resume(from, limit)? {
                Some(resume) if is_to_end && self.copy_ends_before(resume)? => {
                    self.end_copy(from, limit)?;
                    return Ok(from);
                }
                Some(resume) => resume,
                None if is_to_end => return Ok(from),
                None => limit,
            };
            self.repair_damage(self.damage(from, at))?;
            self.rounds.restart();
        }
    }

    /// Creates missing files before `before`, the start of the check.
    pub(crate) fn fill_gaps(&mut self, before: u64) -> Result<(), StoreError> {
        let file_bytes = self.log.file_size();
        let missing = self.log.missing(MISSING_FILES_MAX);
        for start in missing.into_iter().filter(|start| *start < before) {
            self.repair_damage(self.damage(start, start + file_bytes))?;
        }
        Ok(())
    }

    /// Start of the last record if its end may be missing.
    fn doubtful(&self) -> Option<u64> {
        let (start, _) = self.last.filter(|(_, is_doubtful)| *is_doubtful)?;
        Some(start)
    }

    /// Advances over consecutive valid records.
    fn stretch(
        &mut self,
        mut at: u64,
        limit: u64,
        on_record: &impl Fn(Queued<'_>),
    ) -> Result<Stretch, StoreError> {
        while at < limit {
            let blocks = self.rounds.next(self.log, at, limit);
            let found = self.rounds.check(self.log, self.belief, &blocks, limit);
            if let Some(line) = self
                .progress
                .as_mut()
                .and_then(|progress| progress.line_at(at))
            {
                tracing::info!("{line}");
            }
            for (block, findings) in blocks.into_iter().zip(found) {
                if at >= block.to {
                    continue;
                }
                let findings = self.chained(at, block, findings, limit)?;
                at = if self.is_even(&findings) {
                    self.take(&findings, on_record);
                    findings.end.max(at)
                } else {
                    self.one_by_one(at, block.to, limit, on_record)?
                };
                if at >= block.to {
                    continue;
                }
                match self.blank(at, limit)? {
                    Some(next) if next >= limit => return Ok(Stretch::Blank(at)),
                    Some(next) => at = next,
                    None => return Ok(Stretch::Bad(at)),
                }
            }
        }
        Ok(Stretch::End(at))
    }

    /// The findings of a block if they start at the end of the previous block; otherwise checks
    /// again.
    fn chained(
        &self,
        at: u64,
        block: Block,
        findings: io::Result<Findings>,
        limit: u64,
    ) -> Result<Findings, StoreError> {
        let findings = findings.and_then(|findings| {
            if findings.first == Some(at) {
                return Ok(findings);
            }
            let block = Block {
                from: at,
                to: block.to,
                is_chained: true,
            };
            blocks::check(self.log, self.belief, block, limit)
        });
        findings.map_err(|error| self.read_error(at, error))
    }

    /// Start of the next file if there is a blank record at `at`.
    fn blank(&mut self, at: u64, limit: u64) -> Result<Option<u64>, StoreError> {
        let mut scanner = LogScanner::from(at);
        let step = scanner.step(self.log, limit);
        if step.map_err(|error| self.read_error(at, error))? != Step::Blank {
            return Ok(None);
        }
        self.last = None;
        Ok(Some(scanner.offset()))
    }

    /// Whether offsets increase by one in every queue.
    fn is_even(&self, findings: &Findings) -> bool {
        let follows = |topic: &str, queue_id: &i32, span: &Span| {
            let before = self.seen.queue_offset(topic, *queue_id);
            before.is_none_or(|before| span.first == before.wrapping_add(1))
        };
        let mut topics = findings.queues.iter();
        findings.is_even
            && topics
                .all(|(topic, queues)| queues.iter().all(|(id, span)| follows(topic, id, span)))
    }

    /// Adds valid records.
    pub(crate) fn take(&mut self, findings: &Findings, on_record: &impl Fn(Queued<'_>)) {
        for (topic, queues) in &findings.queues {
            for (queue_id, span) in queues {
                self.seen.note_queue(topic, *queue_id, span.last);
                on_record(Queued {
                    topic,
                    queue_id: *queue_id,
                    first: span.first,
                    first_physical: span.first_physical,
                    last: span.last,
                    last_physical: span.last_physical,
                });
            }
        }
        self.marks.extend_from_slice(&findings.marks);
        if let Some(start) = findings.last {
            self.seen.store_timestamp_ms = findings.last_ms;
            self.last = Some((start, findings.is_doubtful));
        }
    }

    /// The next record after damage that can be repaired; None if the log ends there.
    fn resume(&self, from: u64, limit: u64) -> Result<Option<u64>, StoreError> {
        let mut search_from = from;
        while let Some(next) = next_record(self.log, search_from, limit, &self.seen)? {
            if self.damage(from, next).can_be_repaired(self.log)? {
                return Ok(Some(next));
            }
            // No record fits into the gap, so this one counts as damaged, too.
            search_from = next;
        }
        Ok(None)
    }

    pub(crate) fn damage(&self, from: u64, to: u64) -> Damage {
        let last = self.last.map(|(start, _)| start);
        Damage {
            from,
            to,
            last: last.filter(|last| *last < from && self.log.next_file_start(*last) > from),
            store_timestamp_ms: self.seen.store_timestamp_ms,
        }
    }

    /// Repairs damage before a valid record, or refuses it.
    pub(crate) fn repair_damage(&mut self, damage: Damage) -> Result<(), StoreError> {
        let Damage { from, to, .. } = damage;
        let place = self.place(from);
        let what = format!(
            "{place}: {} bytes up to offset {to} are no records",
            to - from
        );
        self.may_repair(from, &what)?;
        tracing::error!("{what}; saving the bytes to mqstack/quarantine and overwriting them");
        let last = damage.last;
        LogFacts::note_repair(self.root, StartedRepair { from, to, last })?;
        let change = damage.repair(self.root, self.log)?;
        self.repaired.push((from, to));
        self.changes.push(change);
        self.last = None;
        Ok(())
    }

    /// Fails if the policy is to refuse damage, which begins at `from`, or if the log is a copy.
    pub(crate) fn may_repair(&self, from: u64, what: &str) -> Result<(), StoreError> {
        if self.repairs && !self.is_copy {
            return Ok(());
        }
        let root = self.root.display().to_string();
        if self.is_copy {
            return Err(self.damaged_copy(from, what));
        }
        let why = match self.belief.is_end_known {
            true => "there were records when the store was closed",
            false => "valid records follow",
        };
        let what = format!(
            "{what}, but {why}. List all damage with `mqstore verify {root}`; continue without the \
             lost messages with damagePolicy=repair, or in a copy with `mqstore repair {root} \
             --to NEW_DIRECTORY`"
        );
        Err(StoreError::Damaged { root, what })
    }

    /// Notes that a record's header was repaired.
    pub(crate) fn note_header(&mut self, from: u64, to: u64) {
        self.repaired.push((from, to));
    }

    /// Describes a file and a position in it, for messages.
    pub(crate) fn place(&self, offset: u64) -> String {
        let in_file = offset % self.log.file_size();
        let name = offset_name(offset - in_file);
        let path = self.root.join("commitlog").join(name);
        format!("{} at byte {in_file} (offset {offset})", path.display())
    }

    pub(crate) fn read_error(&self, offset: u64, error: io::Error) -> StoreError {
        let root = self.root.display();
        let place = self.place(offset);
        let what = format!(
            "{place}, where a record is expected; if the disk is failing, save the readable \
             messages with `mqstore repair {root} --to NEW_DIRECTORY`"
        );
        io_error(what.as_ref())(error)
    }

    /// Whether the offsets of any queue did not increase by one.
    pub(crate) fn has_doubts(&self) -> bool {
        self.doubts > 0
    }

    /// Whether there was no damage and no doubtful queue offset.
    pub(crate) fn is_sound(&self) -> bool {
        self.repaired.is_empty() && !self.has_doubts()
    }

    /// Repaired ranges.
    pub fn repaired_ranges(&self) -> &[(u64, u64)] {
        &self.repaired
    }

    /// Store time of the last valid record; 0 if there is none.
    pub fn last_store_timestamp_ms(&self) -> i64 {
        self.seen.store_timestamp_ms
    }

    /// The changes that queues must follow.
    pub(crate) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// An offset at or before the first record stored after `timestamp_ms`; None if there is none.
    pub fn first_after(&self, timestamp_ms: i64) -> Option<u64> {
        let after = self.marks.iter().position(|(_, time)| *time > timestamp_ms);
        let at = after.unwrap_or(self.marks.len()).checked_sub(1);
        at.or(after).map(|at| self.marks[at].0)
    }
}
