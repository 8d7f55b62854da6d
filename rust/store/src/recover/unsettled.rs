//! Finishing what an earlier start began to heal: the log is whole, the queues do not know it yet.

use super::heal::Change;
use super::record::good_record;
use super::{Recovery, log_io};
use crate::directory::log_facts::Healing;
use crate::records::walk::{Step, Walk};
use crate::types::StoreError;
use mq_format::message::sys_flag;
use mq_log::Files;

impl<F: Files> Recovery<'_, F> {
    /// What queues have to learn of ranges that were healed, now that the log is checked.
    pub(super) fn unsettled(&self, healing: &[Healing]) -> Result<Vec<Change>, StoreError> {
        let mut changes = Vec::new();
        for healing in healing {
            let Healing { from, to, last } = *healing;
            let mut change = Change {
                from,
                to,
                grown: None,
            };
            let mut walk = Walk::from(last.unwrap_or(from));
            match walk.step(self.log, to).map_err(log_io)? {
                Step::Blank => change.from = last.unwrap_or(from),
                Step::Record(bytes) if walk_end(last, bytes) == Some(to) => {
                    change.grown = last.map(|last| (last, bytes.len()));
                }
                _ => {}
            }
            if change.grown.is_some() || !self.has_message(change.from, to)? {
                changes.push(change);
            }
        }
        Ok(changes)
    }

    /// Whether a message starts in a range.
    fn has_message(&self, from: u64, to: u64) -> Result<bool, StoreError> {
        let mut walk = Walk::from(from);
        while walk.offset() < to {
            let offset = walk.offset();
            match walk.step(self.log, to).map_err(log_io)? {
                Step::Record(bytes) => {
                    let record = good_record(offset, bytes);
                    if record.is_some_and(|record| sys_flag::is_queued(record.sys_flag)) {
                        return Ok(true);
                    }
                }
                Step::Blank => {}
                Step::Neither | Step::End => break,
            }
        }
        Ok(false)
    }
}

/// Where the record ends that starts at `last`.
fn walk_end(last: Option<u64>, bytes: &[u8]) -> Option<u64> {
    Some(last? + bytes.len() as u64)
}
