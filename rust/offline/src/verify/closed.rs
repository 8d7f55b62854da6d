//! Compares the store with the facts that a clean stop recorded.

use super::Check;
use crate::scan::log_error;
use mq_store::StoreError;
use mq_store::inspect::CleanStop;

/// The file with these facts, relative to the store.
const PLACE: &str = "mqstack/closed.json";
/// A file that only an open mqstack store writes.
const LOG_FACTS: &str = "mqstack/log.json";

impl Check<'_> {
    /// After a clean stop, the log must still end at the recorded offset, with the same bytes.
    pub(super) fn closed(&mut self, log_end: u64) -> Result<(), StoreError> {
        if !self.state.is_clean || self.state.is_locked {
            return Ok(());
        }
        if !self.scan.root.join(PLACE).exists() {
            if self.scan.root.join(LOG_FACTS).exists() {
                let what = "missing: the next open cannot tell whether the queues are complete";
                self.notice("closed", PLACE, -1, what.to_owned());
            }
            return Ok(());
        }
        let Some(clean_stop) = CleanStop::read(&self.scan.root)? else {
            let what = "cannot be read: the next open checks the store".to_owned();
            self.find("closed", PLACE, -1, what);
            return Ok(());
        };
        if Some(clean_stop.checkpoint_crc) != self.scan.checkpoint_crc()? {
            let what = "the checkpoint changed: another program wrote it, or it is damaged";
            self.notice("closed", PLACE, -1, what.to_owned());
            return Ok(());
        }
        let end = clean_stop.end.log_end;
        let failed = log_error(end.cast_signed());
        if log_end < end {
            let what =
                format!("the log ended at {end} when the store was closed, now at {log_end}");
            self.find("log_end", "commitlog", log_end.cast_signed(), what);
        } else if !clean_stop.has_sound_tail(&self.scan.log).map_err(failed)? {
            let what = format!("the last bytes before {end} changed since the store was closed");
            self.find("log_tail", "commitlog", end.cast_signed(), what);
        }
        let queues = self.queues.values().flat_map(|queues| queues.values());
        let offsets: i64 = queues
            .clone()
            .map(|checked| checked.queue.max_offset())
            .sum();
        let (count, stated) = (
            queues.count(),
            (clean_stop.queues, clean_stop.queue_offsets),
        );
        if (count, offsets) != stated {
            let what = format!(
                "{count} queues with {offsets} offsets in all; at the clean stop {} with {}",
                stated.0, stated.1
            );
            self.find("queue_missing", "consumequeue", -1, what);
        }
        Ok(())
    }
}
