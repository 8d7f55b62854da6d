//! Python door of the read-only scanner over a store directory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::errors::raise;
use mq_format::index::IndexHeader;
use mq_format::message::CheckCrc;
use mq_offline::{self as scan, Filter, Finding, QueueRange};
use mq_render::BodyText;

/// Interval at which a long check looks for Ctrl-C and reports its progress.
const POLL: Duration = Duration::from_millis(50);

/// A store directory, read without lock, recovery or any change.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct Scan {
    inner: Arc<scan::Scan>,
}

type Chunk<'py> = (Bound<'py, PyBytes>, Vec<i64>, i64);
type Selected<'py> = (Bound<'py, PyBytes>, usize, i64, &'static str);
type QueueChunk<'py> = (Bound<'py, PyBytes>, usize, i64, bool);
type State = (bool, bool, Option<(i64, i64, i64)>);
type IndexFile = (String, i64, i64, i64, i64, i32, i32);
type Layout = (Option<u64>, Option<u64>, Option<u32>, Option<u32>);

#[pymethods]
impl Scan {
    /// Opens the store at `root` for reading.
    #[new]
    fn new(py: Python<'_>, root: PathBuf) -> PyResult<Self> {
        let inner = py.detach(|| scan::Scan::open(&root)).map_err(raise)?;
        let inner = Arc::new(inner);
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

    /// Whether the store was closed cleanly, whether a broker holds its lock, and the checkpoint's
    /// times.
    fn state(&self, py: Python<'_>) -> PyResult<State> {
        let state = py.detach(|| self.inner.state()).map_err(raise)?;
        let times = state
            .checkpoint_ms
            .map(|[log, queues, index]| (log, queues, index));
        Ok((state.is_clean, state.is_locked, times))
    }

    /// Files of a newer RocketMQ that this version cannot read: path in the store, description.
    fn unread(&self, py: Python<'_>) -> Vec<(String, &'static str)> {
        let found = py.detach(|| self.inner.unread());
        found
            .into_iter()
            .map(|part| (part.path, part.what))
            .collect()
    }

    /// The next records that pass the filter, their number, the offset of the next chunk, and why
    /// this chunk ended.
    #[pyo3(signature = (
        offset, max_bytes, *, stop=None, topic=None, queue_id=None, tag=None, begin_ms=None,
        end_ms=None, check_crc=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn select<'py>(
        &self,
        py: Python<'py>,
        offset: i64,
        max_bytes: usize,
        stop: Option<i64>,
        topic: Option<&str>,
        queue_id: Option<i32>,
        tag: Option<&str>,
        begin_ms: Option<i64>,
        end_ms: Option<i64>,
        check_crc: bool,
    ) -> PyResult<Selected<'py>> {
        let filter = Filter {
            stop,
            topic,
            queue_id,
            tag,
            begin_ms,
            end_ms,
        };
        let found = py
            .detach(|| {
                self.inner
                    .select(offset, max_bytes, &filter, check_of(check_crc))
            })
            .map_err(raise)?;
        let bytes = PyBytes::new(py, &found.bytes);
        Ok((bytes, found.count, found.next_offset, found.ended.as_str()))
    }

    /// The offset of the next record after an offset at which none starts, or None.
    fn next_record_after(&self, py: Python<'_>, offset: i64) -> PyResult<Option<i64>> {
        py.detach(|| self.inner.next_record_after(offset))
            .map_err(raise)
    }

    /// Each log file: its first byte, store time of its first record.
    fn file_starts(&self, py: Python<'_>) -> PyResult<Vec<(i64, Option<i64>)>> {
        py.detach(|| self.inner.file_starts()).map_err(raise)
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

    /// Raw 20-byte entries of a queue from a queue offset on.
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

    /// Records of one queue, their number, the next queue offset, and whether more follow.
    #[pyo3(signature = (
        topic, queue_id, offset, max_bytes, *, stop=None, check_crc=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn queue_records<'py>(
        &self,
        py: Python<'py>,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_bytes: usize,
        stop: Option<i64>,
        check_crc: bool,
    ) -> PyResult<QueueChunk<'py>> {
        let range = QueueRange {
            start: offset,
            stop,
        };
        let chunk = py
            .detach(|| {
                self.inner
                    .queue_records(topic, queue_id, range, max_bytes, check_of(check_crc))
            })
            .map_err(raise)?;
        let bytes = PyBytes::new(py, &chunk.bytes);
        Ok((bytes, chunk.count, chunk.next_offset, chunk.has_more))
    }

    /// Index files, oldest first: name, times, physical offsets, used slots, entries.
    fn index_files(&self, py: Python<'_>) -> PyResult<Vec<IndexFile>> {
        let files = py.detach(|| self.inner.index_files()).map_err(raise)?;
        let row = |(name, header): (String, IndexHeader)| {
            (
                name,
                header.begin_timestamp_ms,
                header.end_timestamp_ms,
                header.begin_physical_offset,
                header.end_physical_offset,
                header.hash_slot_count,
                // The first entry's number is 1; a fresh file counts 0.
                header.index_count.saturating_sub(1).max(0),
            )
        };
        Ok(files.into_iter().map(row).collect())
    }

    /// The slots of an index file.
    fn index_slots<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        let slots = py.detach(|| self.inner.index_slots(name)).map_err(raise)?;
        Ok(PyBytes::new(py, &slots))
    }

    /// Raw 20-byte entries of an index file.
    fn index_entries<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        start: u32,
        max_count: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let entries = py
            .detach(|| self.inner.index_entries(name, start, max_count))
            .map_err(raise)?;
        Ok(PyBytes::new(py, &entries))
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

    /// Checks every record, queue entry and index entry.
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

impl Scan {
    /// The log that the rendering threads read.
    pub(super) fn shared(&self) -> Arc<scan::Scan> {
        Arc::clone(&self.inner)
    }
}

pub(super) fn check_of(check_crc: bool) -> CheckCrc {
    if check_crc {
        CheckCrc::Yes
    } else {
        CheckCrc::No
    }
}

/// Whole records as JSON lines.
#[pyfunction]
pub fn json_lines<'py>(
    py: Python<'py>,
    records: &Bound<'py, PyBytes>,
    body: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let body = body_text(body)?;
    let bytes = records.as_bytes();
    let rendered = py.detach(|| mq_render::json_lines(bytes, body, &mut decompress));
    let lines = rendered.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(PyBytes::new(py, lines.as_bytes()))
}

/// How to write bodies, by Python's name.
pub(super) fn body_text(word: &str) -> PyResult<BodyText> {
    BodyText::parse(word).ok_or_else(|| {
        let what = format!("body must be none, text, hex or base64, not {word:?}");
        PyValueError::new_err(what)
    })
}

/// Compressed bodies are rare. The codec decompresses them, so that its error texts are used.
pub(super) fn decompress(body: &[u8], sys_flag: i32) -> Result<Vec<u8>, String> {
    let words = |error: PyErr| error.to_string();
    Python::attach(|py| {
        let call = py
            .import("mqcommon._codec")
            .and_then(|codec| codec.call_method1("decompress_body", (body, sys_flag)));
        match call {
            Ok(unpacked) => unpacked.extract::<Vec<u8>>().map_err(words),
            Err(error) => Err(error.value(py).to_string()),
        }
    })
}

/// Handles Ctrl-C and reports the progress to the caller; an exception in either stops the check.
fn report_progress(progress: Option<&Py<PyAny>>, offset: i64) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        progress.map_or(Ok(()), |call| call.call1(py, (offset,)).map(|_| ()))
    })
}

type Row = (&'static str, String, i64, String);

/// The figures of a check of a store.
#[pyclass(frozen, get_all, module = "mqcommon._core")]
pub struct Report {
    /// Good records.
    records: u64,
    /// Bytes of the good records.
    record_bytes: u64,
    /// Queue entries checked.
    queue_entries: u64,
    /// Consume-queue extension units checked.
    extension_units: u64,
    /// Index entries checked.
    index_entries: u64,
    /// Committed and delay offsets checked.
    offsets: u64,
    /// End of the last good record.
    log_end: u64,
    /// Number of findings; `findings` has at most the first thousand.
    finding_count: u64,
    /// Damage: kind, place, offset (-1 for none), description.
    findings: Vec<Row>,
    /// Remarks that are not damage.
    notices: Vec<Row>,
}

impl From<scan::Report> for Report {
    fn from(report: scan::Report) -> Self {
        let row = |f: Finding| (f.kind, f.place, f.offset, f.what);
        Self {
            records: report.records,
            record_bytes: report.record_bytes,
            queue_entries: report.queue_entries,
            extension_units: report.extension_units,
            index_entries: report.index_entries,
            offsets: report.offsets,
            log_end: report.log_end,
            finding_count: report.finding_count,
            findings: report.findings.into_iter().map(row).collect(),
            notices: report.notices.into_iter().map(row).collect(),
        }
    }
}
