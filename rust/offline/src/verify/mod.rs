//! Checks a store directory. Compares every record, queue entry, extension unit and index entry,
//! the checkpoint and the state files with each other.

mod closed;
mod delays;
#[cfg(test)]
mod detection_tests;
mod index;
mod log;
mod queues;
mod report;
mod sequence;
mod states;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use self::delays::Delays;
use self::index::Keys;
use self::log::Times;
use self::queues::Checked;
pub use self::report::{FINDINGS_MAX, Finding, Report};
use self::sequence::Sequences;
use super::build::levels;
use super::scan::Scan;
use super::state::State;
use mq_format::delay_levels::DelayLevels;
use mq_store::Settings;
use mq_store::StoreError;
use mq_store::inspect::Deletions;

/// Records or entries between two calls of `progress`.
const PROGRESS_EVERY: u64 = 256;

/// A running check.
struct Check<'a> {
    scan: &'a Scan,
    progress: &'a mut dyn FnMut(i64) -> bool,
    report: Report,
    state: State,
    /// RocketMQ's default delay levels; a broker may have others.
    levels: DelayLevels,
    queues: Queues,
    keys: Keys,
    /// Number of records after the ends of their queues in a store that was not closed, and the
    /// first one's physical offset.
    past_end: (u64, i64),
    /// Topics that the broker knows; None if no topic table can be read.
    topics: Option<HashSet<String>>,
    deletions: Deletions,
    /// Records of deleted topics that are still in the log, by topic.
    deleted: BTreeMap<String, u64>,
    /// Number of records of queues that were deleted and created again, and the first one's
    /// physical offset.
    superseded: (u64, i64),
    sequences: Sequences,
    delays: Delays,
    times: Times,
    last_store_timestamp_ms: i64,
    steps: u64,
}

/// Queues by topic and id.
type Queues = HashMap<String, HashMap<i32, Checked>>;

/// The caller asked to stop.
struct Stopped;

impl Scan {
    /// Checks log, queues, extension, index, checkpoint and state files against each other.
    /// `progress` receives the current physical offset; the check stops if it returns false.
    pub fn verify(&self, progress: &mut dyn FnMut(i64) -> bool) -> Result<Report, StoreError> {
        check_all(self, progress)
    }
}

fn check_all(scan: &Scan, progress: &mut dyn FnMut(i64) -> bool) -> Result<Report, StoreError> {
    let state = scan.state()?;
    let mut check = Check {
        scan,
        progress,
        report: Report::default(),
        state,
        levels: levels(&Settings::default())?,
        queues: Queues::new(),
        keys: Keys::of(scan, !state.is_clean),
        past_end: (0, -1),
        topics: states::topics(&scan.root)?,
        deletions: Deletions::read(&scan.root)?,
        deleted: BTreeMap::new(),
        superseded: (0, -1),
        sequences: Sequences::default(),
        delays: Delays::default(),
        times: Times::default(),
        last_store_timestamp_ms: 0,
        steps: 0,
    };
    check.notice_state();
    check.files()?;
    check.load_queues()?;
    let Ok(log_end) = check.log()? else {
        return Ok(check.report);
    };
    check.report.log_end = log_end;
    check.report_past_end();
    check.delay_times();
    check.checkpoint()?;
    check.own_files()?;
    check.closed(log_end)?;
    check.states()?;
    check.queues(log_end);
    check.index(log_end)?;
    Ok(check.report)
}

impl Check<'_> {
    fn find(&mut self, kind: &'static str, place: impl Into<String>, offset: i64, what: String) {
        self.report.finding_count += 1;
        if self.report.findings.len() < FINDINGS_MAX {
            self.report.findings.push(Finding {
                kind,
                place: place.into(),
                offset,
                what,
            });
        }
    }

    /// Reports a fact that is worth knowing and no damage.
    fn notice(&mut self, kind: &'static str, place: impl Into<String>, offset: i64, what: String) {
        if self.report.notices.len() < FINDINGS_MAX {
            self.report.notices.push(Finding {
                kind,
                place: place.into(),
                offset,
                what,
            });
        }
    }

    /// Reports progress; fails if the caller wants to stop.
    fn step(&mut self, offset: i64) -> Result<(), Stopped> {
        self.steps += 1;
        let is_due = self.steps.is_multiple_of(PROGRESS_EVERY);
        if is_due && !(self.progress)(offset) {
            return Err(Stopped);
        }
        Ok(())
    }

    fn notice_state(&mut self) {
        for part in self.scan.unread() {
            self.notice("unread", part.path, -1, part.what.to_owned());
        }
        if self.state.is_locked {
            let what = "a broker has the store open: its current writes may look like damage";
            self.notice("in_use", "lock", -1, what.into());
        } else if !self.state.is_clean {
            let what = "the store was not closed: the next open checks and repairs it";
            self.notice("not_closed", "abort", -1, what.into());
        }
    }
}
