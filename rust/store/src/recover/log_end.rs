//! Where the log is checked from, and where it ends.

use super::log_check::{Left, LogCheck, Queued};
use super::marker::Marker;
use super::progress::Progress;
use super::recovery::{Recovery, log_io};
use crate::directory::log_facts::LogFacts;
use crate::records::record::good_record;
use crate::records::walk::{Step, Walk};
use crate::types::StoreError;
use mq_format::message::{CheckCrc, RecordView};
use mq_log::Segments;

/// Files checked from the end after a clean stop, as RocketMQ does.
const CHECKED_FILES: usize = 3;
/// A checkpoint further ahead of the clock than this is not believed, milliseconds.
const CLOCK_STEP_MS: i64 = 24 * 3600 * 1000;

impl Recovery<'_> {
    /// What a clean stop recorded, if nobody else wrote the checkpoint since.
    pub(super) fn marker(&self) -> Result<Option<Marker>, StoreError> {
        let crc = self.checkpoint.crc()?;
        let marker = Marker::read(self.root)?;
        let had_log = LogFacts::is_there(self.root) && !self.log.starts().is_empty();
        if marker.is_none() && self.was_clean && had_log {
            tracing::warn!(
                "mqstack/closed.json is missing or damaged: the start cannot tell whether the \
                 queues are complete; mqstore verify can"
            );
        }
        let marker = marker.filter(|marker| marker.checkpoint_crc == crc);
        Ok(marker.filter(|_| self.was_clean))
    }

    /// A check of `[from, to)`, which tells in the log how far it is.
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
        LogCheck::new(self.root, self.log, settings.heal_damage, left)
            .with_multi_dispatch(settings.multi_dispatch)
            .with_body_crc(body_crc)
            .telling(Progress::new(self.clock, from, to.max(from)))
    }

    /// The checkpoint's time, if it can be true: a bit flipped in it must not vouch for anything.
    pub(super) fn safe_timestamp_ms(&self) -> i64 {
        let safe_ms = self.checkpoint.safe_timestamp_ms();
        let latest_ms = self.clock.wall_ms().saturating_add(CLOCK_STEP_MS);
        if safe_ms <= latest_ms { safe_ms } else { 0 }
    }

    /// Where RocketMQ starts checking the log. A file that claims to be older than the one before
    /// has a damaged header, or the clock was set back: it vouches for nothing.
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

    /// Checks from `start` on; the log ends where a clean stop recorded it, or further on.
    pub(super) fn end_of_log(
        &self,
        check: &mut LogCheck<'_>,
        marker: Option<&Marker>,
        start: u64,
        told: impl Fn(Queued<'_>),
    ) -> Result<u64, StoreError> {
        let Some(marker) = marker.filter(|marker| marker.end.log_end > start) else {
            return check.run(start, None, told);
        };
        let is_tail_sound = marker.has_sound_tail(self.log).map_err(log_io)?;
        let end = marker.end.log_end;
        let end = check.run_to_recorded(start, end, is_tail_sound, &told)?;
        if marker.is_exceeded(self.log).map_err(log_io)? && end == marker.end.log_end {
            return check.run(end, None, told);
        }
        Ok(end)
    }

    /// `offset` if a record or filler starts there, as queues and index say; else where its file
    /// starts: healing may have changed the log under them.
    pub(super) fn record_start(&self, offset: u64, log_end: u64) -> Result<u64, StoreError> {
        let offset = offset.max(self.log.min_offset());
        if offset >= log_end {
            return Ok(log_end);
        }
        let mut walk = Walk::from(offset);
        let is_start = match walk.step(self.log, log_end).map_err(log_io)? {
            Step::Record(bytes) => good_record(offset, bytes).is_some(),
            Step::Blank => true,
            Step::Neither | Step::End => false,
        };
        let file_start = self.log.next_file_start(offset) - self.log.file_size();
        Ok(if is_start { offset } else { file_start })
    }
}

fn first_store_timestamp(log: &Segments, start: u64) -> Result<Option<i64>, StoreError> {
    let mut walk = Walk::from(start);
    let step = walk.step(log, log.next_file_start(start)).map_err(log_io)?;
    let Step::Record(bytes) = step else {
        return Ok(None);
    };
    let record = RecordView::parse(bytes, CheckCrc::No).ok();
    Ok(record.map(|record| record.store_timestamp_ms))
}
