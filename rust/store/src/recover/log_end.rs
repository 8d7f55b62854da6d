//! Decides where the check of the log starts, and finds the end of the log.

use super::clean_stop::CleanStop;
use super::recovery::Recovery;
use crate::directory::log_facts::LogFacts;
use crate::scan::log_check::{Left, LogCheck, Queued};
use crate::scan::log_io;
use crate::scan::log_scanner::{LogScanner, Step};
use crate::scan::progress::Progress;
use crate::scan::record::good_record;
use crate::types::{Role, StoreError};
use mq_format::message::{CheckCrc, RecordView};
use mq_log::Segments;

/// Files checked from the end after a clean stop, as in RocketMQ.
const CHECKED_FILES: usize = 3;
/// A checkpoint further ahead of the clock than this is not trusted, milliseconds.
const CLOCK_STEP_MS: i64 = 24 * 3600 * 1000;

impl Recovery<'_> {
    /// The record of a clean stop, if no other program wrote the checkpoint since.
    pub(super) fn clean_stop(&self) -> Result<Option<CleanStop>, StoreError> {
        let crc = self.checkpoint.crc()?;
        let clean_stop = CleanStop::read(self.root)?;
        let had_log = LogFacts::is_there(self.root) && !self.log.starts().is_empty();
        if clean_stop.is_none() && self.was_clean && had_log {
            tracing::warn!(
                "mqstack/closed.json is missing or damaged: the start cannot tell whether the \
                 queues are complete; mqstore verify can"
            );
        }
        let clean_stop = clean_stop.filter(|clean_stop| clean_stop.checkpoint_crc == crc);
        Ok(clean_stop.filter(|_| self.was_clean))
    }

    /// A check of `[from, to)` that logs its progress.
    pub(super) fn log_check(&self, from: u64, to: u64) -> LogCheck<'_> {
        let left = match self.was_clean {
            true => Left::Clean,
            false => Left::Unclean(self.safe_timestamp_ms()),
        };
        let settings = self.settings;
        let body_crc = match settings.check_crc_on_recover || !self.was_clean {
            true => CheckCrc::Yes,
            false => CheckCrc::No,
        };
        LogCheck::new(self.root, self.log, settings.repair_damage, left)
            .of_copy(settings.role == Role::Slave)
            .with_multi_dispatch(settings.multi_dispatch)
            .with_body_crc(body_crc)
            .with_progress(Progress::new(self.clock, from, to.max(from)))
    }

    /// The checkpoint's time if it is plausible. With a flipped bit it could make records look
    /// durable.
    pub(super) fn safe_timestamp_ms(&self) -> i64 {
        let safe_ms = self.checkpoint.safe_timestamp_ms();
        let latest_ms = self.clock.wall_ms().saturating_add(CLOCK_STEP_MS);
        if safe_ms <= latest_ms { safe_ms } else { 0 }
    }

    /// The offset at which RocketMQ starts its check of the log. If a file claims to be older than
    /// the previous one, its header is damaged or the clock was set back, so its time is not
    /// trusted.
    pub(super) fn check_start(&self, safe_ms: i64) -> Result<u64, StoreError> {
        let starts = self.log.starts();
        let Some(first) = starts.first() else {
            return Ok(0);
        };
        if self.was_clean {
            return Ok(starts[starts.len().saturating_sub(CHECKED_FILES)]);
        }
        let mut later: Option<(u64, i64)> = None;
        for start in starts.iter().rev() {
            let found = first_store_timestamp(self.log, *start)?;
            if let Some((start, time)) = later
                && found.is_none_or(|before| before <= time)
            {
                return Ok(start);
            }
            let is_durable = |time: &i64| *time > 0 && *time <= safe_ms;
            later = found.filter(is_durable).map(|time| (*start, time));
        }
        Ok(*first)
    }

    /// Checks from `start` on. The log ends at or after the end that a clean stop recorded.
    pub(super) fn end_of_log(
        &self,
        check: &mut LogCheck<'_>,
        clean_stop: Option<&CleanStop>,
        start: u64,
        on_record: impl Fn(Queued<'_>),
    ) -> Result<u64, StoreError> {
        let Some(clean_stop) = clean_stop.filter(|clean_stop| clean_stop.end.log_end > start)
        else {
            return check.run(start, None, on_record);
        };
        let is_tail_sound = clean_stop.has_sound_tail(self.log).map_err(log_io)?;
        let end = clean_stop.end.log_end;
        let end = check.run_to_recorded(start, end, is_tail_sound, &on_record)?;
        if clean_stop.is_exceeded(self.log).map_err(log_io)? && end == clean_stop.end.log_end {
            return check.run(end, None, on_record);
        }
        Ok(end)
    }

    /// Returns `offset` if a record or a blank record starts there; otherwise the start of its
    /// file. Queues and index may name an offset whose record a repair has changed.
    pub(super) fn record_start(&self, offset: u64, log_end: u64) -> Result<u64, StoreError> {
        let offset = offset.max(self.log.min_offset());
        if offset >= log_end {
            return Ok(log_end);
        }
        let mut scanner = LogScanner::from(offset);
        let is_start = match scanner.step(self.log, log_end).map_err(log_io)? {
            Step::Record(bytes) => good_record(offset, bytes).is_some(),
            Step::Blank => true,
            Step::Invalid | Step::End => false,
        };
        let file_start = self.log.next_file_start(offset) - self.log.file_size();
        Ok(if is_start { offset } else { file_start })
    }
}

fn first_store_timestamp(log: &Segments, start: u64) -> Result<Option<i64>, StoreError> {
    let mut scanner = LogScanner::from(start);
    let step = scanner
        .step(log, log.next_file_start(start))
        .map_err(log_io)?;
    let Step::Record(bytes) = step else {
        return Ok(None);
    };
    let record = RecordView::parse(bytes, CheckCrc::No).ok();
    Ok(record.map(|record| record.store_timestamp_ms))
}
