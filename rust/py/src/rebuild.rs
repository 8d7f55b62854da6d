//! Python doors of rebuilding and repairing a store.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use super::errors::raise;
use mq_offline::{self as scan, GroupOutlook, RebuildOptions, Rebuilt, SetSizes, WorkStep};
use mq_store::inspect;

/// Interval at which long work looks for Ctrl-C and reports its progress.
const POLL: Duration = Duration::from_millis(50);

type Group = (String, String, i32, i64, i64, i64, i64, i64);

/// Ends the log of a closed store at the record that holds `offset`; returns the range that it cut.
#[pyfunction]
pub fn cut_log(py: Python<'_>, root: PathBuf, offset: u64) -> PyResult<(u64, u64)> {
    py.detach(|| inspect::cut_log(&root, offset)).map_err(raise)
}

/// The result of a rebuild or a repair.
#[pyclass(frozen, get_all, module = "mqcommon._core")]
pub struct RepairReport {
    /// Directory of the resulting store.
    root: String,
    /// First byte of the log.
    log_start: u64,
    /// Log offset of the next message.
    log_end: u64,
    /// Records kept.
    records: u64,
    /// Damaged ranges overwritten, and the files that keep their bytes.
    repaired: Vec<(u64, u64, String)>,
    /// Bytes removed from the log's end, which held no usable record.
    cut: Option<(u64, u64)>,
    /// Consume queues written.
    queues: usize,
    /// Entries written to consume queues.
    queue_entries: u64,
    /// Queues all of whose messages have expired.
    kept_queues: Vec<(String, i32)>,
    /// Index entries written.
    index_entries: u64,
    /// State files taken from their previous copy.
    restored: Vec<String>,
    /// Changes that consumer groups will see.
    groups: Vec<Group>,
}

impl From<Rebuilt> for RepairReport {
    fn from(done: Rebuilt) -> Self {
        let text = |path: &Path| path.display().to_string();
        let saved = |(from, to, path): &(u64, u64, PathBuf)| (*from, *to, text(path));
        Self {
            root: text(&done.root),
            log_start: done.log_start,
            log_end: done.log_end,
            records: done.records,
            repaired: done.repaired.iter().map(saved).collect(),
            cut: done.cut,
            queues: done.queues,
            queue_entries: done.queue_entries,
            kept_queues: done.kept_queues,
            index_entries: done.index_entries,
            restored: done.restored,
            groups: done.groups.into_iter().map(group_row).collect(),
        }
    }
}

fn group_row(row: GroupOutlook) -> Group {
    (
        row.group,
        row.topic,
        row.queue_id,
        row.committed,
        row.resumes_at,
        row.pending,
        row.replayed,
        row.skipped,
    )
}

/// Rebuilds queues and index from the log; with `repairs` it repairs log and state files first.
#[pyfunction]
#[pyo3(signature = (root, to, progress=None, *, repairs, delay_levels=None,
    index_slots=None, index_entries=None))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub fn rebuild(
    py: Python<'_>,
    root: PathBuf,
    to: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
    repairs: bool,
    delay_levels: Option<&str>,
    index_slots: Option<u32>,
    index_entries: Option<u32>,
) -> PyResult<RepairReport> {
    let options = RebuildOptions {
        repairs,
        to: to.as_deref(),
        delay_levels,
        index: SetSizes {
            slots: index_slots,
            entries: index_entries,
        },
    };
    run(py, &root, &options, progress.as_ref())
}

fn run(
    py: Python<'_>,
    root: &Path,
    options: &RebuildOptions<'_>,
    progress: Option<&Py<PyAny>>,
) -> PyResult<RepairReport> {
    let mut interrupted = None;
    let mut reported: Option<(WorkStep, Instant)> = None;
    let mut told = |step: WorkStep, done: u64, all: u64| {
        let is_due = reported.is_none_or(|(last, at)| last != step || at.elapsed() >= POLL);
        if is_due {
            reported = Some((step, Instant::now()));
            interrupted = tell(progress, step, done, all).err();
        }
        interrupted.is_none()
    };
    let outcome = py.detach(|| scan::rebuild(root, options, &mut told));
    match interrupted {
        Some(error) => Err(error),
        None => outcome.map(RepairReport::from).map_err(raise),
    }
}

/// Handles Ctrl-C and reports the progress to the caller; an exception in either stops the work.
fn tell(progress: Option<&Py<PyAny>>, step: WorkStep, done: u64, all: u64) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        let words = (step.as_str(), done, all);
        progress.map_or(Ok(()), |call| call.call1(py, words).map(|_| ()))
    })
}
