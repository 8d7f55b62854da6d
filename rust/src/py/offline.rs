//! Python door of the read-only scanner over a store directory.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::errors::raise;
use crate::store::scan::{self, Finding};

/// How often a long check looks for Ctrl-C and reports where it is.
const POLL: Duration = Duration::from_millis(50);

/// A store directory, read as it is: no lock, no recovery, nothing created.
#[pyclass(frozen, module = "mqstore._core")]
pub struct Scan {
    inner: scan::Scan,
}

type Chunk<'py> = (Bound<'py, PyBytes>, Vec<i64>, i64);
type Layout = (Option<u64>, Option<u64>, Option<u32>, Option<u32>);

#[pymethods]
impl Scan {
    /// Looks at the store at `root`.
    #[new]
    fn new(py: Python<'_>, root: PathBuf) -> PyResult<Self> {
        let inner = py.detach(|| scan::Scan::open(&root)).map_err(raise)?;
        Ok(Self { inner })
    }

    /// Bytes of a log file and of a queue file, slots and entries of an index file; None where
    /// the store has no such file.
    fn layout(&self) -> Layout {
        let layout = self.inner.layout();
        (
            layout.commit_log_file_bytes,
            layout.consume_queue_file_bytes,
            layout.index_slots,
            layout.index_entries,
        )
    }

    /// Start of the log in bytes.
    fn min_physical_offset(&self) -> i64 {
        self.inner.min_physical_offset()
    }

    /// End of the last log file, at or beyond the end of the last record.
    fn max_physical_offset(&self) -> i64 {
        self.inner.max_physical_offset()
    }

    /// The next whole records from an offset on: their bytes, where each starts, and where the
    /// next chunk begins (the offset asked for, at the end of the log or at damage).
    fn records<'py>(
        &self,
        py: Python<'py>,
        offset: i64,
        max_bytes: usize,
        check_crc: bool,
    ) -> PyResult<Chunk<'py>> {
        let chunk = py
            .detach(|| self.inner.records(offset, max_bytes, check_crc))
            .map_err(raise)?;
        let bytes = PyBytes::new(py, &chunk.bytes);
        Ok((bytes, chunk.physical_offsets, chunk.next_offset))
    }

    /// The record that starts at a physical offset, or None.
    fn record_at<'py>(
        &self,
        py: Python<'py>,
        physical_offset: i64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let record = py
            .detach(|| self.inner.record_at(physical_offset))
            .map_err(raise)?;
        Ok(record.map(|bytes| PyBytes::new(py, &bytes)))
    }

    /// Every consume queue: topic, queue id, first readable offset, one past the last.
    fn queues(&self, py: Python<'_>) -> PyResult<Vec<(String, i32, i64, i64)>> {
        let queues = py.detach(|| self.inner.queues()).map_err(raise)?;
        let row = |q: scan::QueueSummary| (q.topic, q.queue_id, q.min_offset, q.max_offset);
        Ok(queues.into_iter().map(row).collect())
    }

    /// Raw 20-byte units of a queue from a queue offset on.
    fn queue_entries<'py>(
        &self,
        py: Python<'py>,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_count: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let units = py
            .detach(|| self.inner.queue_entries(topic, queue_id, offset, max_count))
            .map_err(raise)?;
        Ok(PyBytes::new(py, &units))
    }

    /// Physical offsets of records whose index key may be `topic#key`, newest first.
    fn lookup(
        &self,
        py: Python<'_>,
        topic: &str,
        key: &str,
        max_count: usize,
        begin_ms: i64,
        end_ms: i64,
    ) -> PyResult<Vec<i64>> {
        py.detach(|| self.inner.lookup(topic, key, max_count, begin_ms, end_ms))
            .map_err(raise)
    }

    /// Checks every record, queue unit and index entry.
    fn verify(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Report> {
        let mut interrupted = None;
        let mut reported = Instant::now();
        let outcome = py.detach(|| {
            self.inner.verify(&mut |offset| {
                if reported.elapsed() >= POLL {
                    reported = Instant::now();
                    interrupted = report_progress(progress.as_ref(), offset).err();
                }
                interrupted.is_none()
            })
        });
        match interrupted {
            Some(error) => Err(error),
            None => outcome.map(Report::from).map_err(raise),
        }
    }
}

/// Lets Ctrl-C in and tells the caller how far the check is; an exception there stops it.
fn report_progress(progress: Option<&Py<PyAny>>, offset: i64) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        progress.map_or(Ok(()), |call| call.call1(py, (offset,)).map(|_| ()))
    })
}

/// What a check of a store counted.
#[pyclass(frozen, get_all, module = "mqstore._core")]
pub struct Report {
    /// Good records.
    records: u64,
    /// Their bytes.
    record_bytes: u64,
    /// Queue units looked at.
    queue_entries: u64,
    /// Index entries looked at.
    index_entries: u64,
    /// Findings in all; `findings` keeps at most the first thousand.
    finding_count: u64,
    /// What is wrong: kind, place, offset (-1 for none), words.
    findings: Vec<(&'static str, String, i64, String)>,
}

impl From<scan::Report> for Report {
    fn from(report: scan::Report) -> Self {
        let row = |f: Finding| (f.kind, f.place, f.offset, f.what);
        Self {
            records: report.records,
            record_bytes: report.record_bytes,
            queue_entries: report.queue_entries,
            index_entries: report.index_entries,
            finding_count: report.finding_count,
            findings: report.findings.into_iter().map(row).collect(),
        }
    }
}
