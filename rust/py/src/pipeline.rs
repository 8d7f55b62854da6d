//! Python door of JSON lines and Arrow columns that threads render ahead of the reader.

use std::collections::HashSet;
use std::io;
use std::os::raw::c_int;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::errors::{file_error, raise};
use super::offline::{Scan, body_text, check_of, decompress};
use mq_offline::{
    self as scan, ChunkResult, ColumnChunk, ColumnWork, Ended, LineChunk, LineWork, Pipeline,
};
use mq_render::{
    Buffers, Choice, Collected, ColumnError, Columns, Sink, TextBuffers, column_layouts,
};

/// Interval between two checks for Ctrl-C.
const POLL: Duration = Duration::from_millis(50);

/// Bytes made by native code, readable by the buffer protocol; their memory is reused once no
/// Python object refers to them.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct Memory {
    bytes: Sink,
}

#[pymethods]
impl Memory {
    fn __len__(&self) -> usize {
        self.bytes.as_bytes().len()
    }

    /// Fills a buffer view for reading.
    ///
    /// # Safety
    /// Python calls this with a view to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().bytes.as_bytes();
        let start = bytes.as_ptr().cast_mut().cast();
        let is_read_only = 1;
        // SAFETY: the view holds a reference to the object, which never changes its bytes.
        let outcome = unsafe {
            let length = bytes.len().cast_signed();
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, is_read_only, flags)
        };
        if outcome == 0 {
            return Ok(());
        }
        Err(PyErr::fetch(slf.py()))
    }
}

/// The fields of `mqstore.offline.Wanted`.
#[derive(FromPyObject)]
pub struct Wanted {
    stop: Option<i64>,
    topic: Option<String>,
    queue_id: Option<i32>,
    tag: Option<String>,
    begin_ms: Option<i64>,
    end_ms: Option<i64>,
    check_crc: bool,
}

impl Wanted {
    fn from(self, offset: i64, chunk_bytes: usize) -> scan::ChunkRequest {
        scan::ChunkRequest {
            offset,
            chunk_bytes,
            stop: self.stop,
            topic: self.topic,
            queue_id: self.queue_id,
            tag: self.tag,
            begin_ms: self.begin_ms,
            end_ms: self.end_ms,
            check_crc: check_of(self.check_crc),
        }
    }
}

/// Waits for the next result; Ctrl-C ends the wait.
fn next<T: Send + 'static>(py: Python<'_>, pipeline: &Pipeline<T>) -> PyResult<ChunkResult<T>> {
    loop {
        if let Some(chunk) = py.detach(|| pipeline.take(POLL)) {
            return chunk.map_err(raise);
        }
        py.check_signals()?;
    }
}

/// The records of the log as JSON lines, rendered ahead.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct LinesAhead {
    pipeline: Pipeline<LineChunk>,
    body: mq_render::BodyText,
}

#[pymethods]
impl LinesAhead {
    /// Starts at an offset.
    #[new]
    fn new(
        scan: &Scan,
        offset: i64,
        chunk_bytes: usize,
        wanted: Wanted,
        body: &str,
    ) -> PyResult<Self> {
        let body = body_text(body)?;
        let wanted = wanted.from(offset, chunk_bytes);
        let pipeline =
            Pipeline::start(scan.shared(), wanted, || LineWork::new(body)).map_err(raise)?;
        Ok(Self { pipeline, body })
    }

    /// The next lines, the offset of the chunk after them, and why the lines ended.
    fn step(&self, py: Python<'_>) -> PyResult<(Memory, i64, &'static str)> {
        let (bytes, next_offset, ended) = self.take(py)?;
        Ok((Memory { bytes }, next_offset, ended.as_str()))
    }

    /// Writes all lines to an open file; returns the log offset at their end, and why they ended.
    fn write(&self, py: Python<'_>, descriptor: i32) -> PyResult<(i64, &'static str)> {
        loop {
            let (bytes, next_offset, ended) = self.take(py)?;
            let mut rest = bytes.as_bytes();
            while !rest.is_empty() {
                match py.detach(|| write_some(descriptor, rest)) {
                    Ok(written) => rest = &rest[written..],
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(file_error(&error)),
                }
                py.check_signals()?;
            }
            if ended != Ended::More {
                return Ok((next_offset, ended.as_str()));
            }
        }
    }
}

impl LinesAhead {
    fn take(&self, py: Python<'_>) -> PyResult<(Sink, i64, Ended)> {
        let chunk = next(py, &self.pipeline)?;
        let lines = match chunk.output {
            LineChunk::Lines(lines) => lines,
            LineChunk::Records(records) => py
                .detach(|| mq_render::json_lines(&records, self.body, &mut decompress))
                .map_err(|error| PyValueError::new_err(error.to_string()))?,
        };
        Ok((lines, chunk.next_offset, chunk.ended))
    }
}

fn write_some(descriptor: i32, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe a live slice; for a bad descriptor `write` returns an
    // error.
    let written = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

type Rows<'py> = (usize, Bound<'py, PyDict>);

/// The records of the log as column buffers, built ahead.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct ColumnsAhead {
    pipeline: Pipeline<ColumnChunk>,
    names: Vec<String>,
    choice: Arc<Choice>,
}

#[pymethods]
impl ColumnsAhead {
    /// Starts at an offset.
    #[new]
    #[pyo3(signature = (scan, offset, chunk_bytes, wanted, columns, *, queue_ids=None, tags=None))]
    fn new(
        scan: &Scan,
        offset: i64,
        chunk_bytes: usize,
        wanted: Wanted,
        columns: Vec<String>,
        queue_ids: Option<HashSet<i32>>,
        tags: Option<HashSet<String>>,
    ) -> PyResult<Self> {
        made_columns(&columns)?;
        let choice = Arc::new(Choice {
            queue_ids,
            tags,
            ..Choice::default()
        });
        let wanted = wanted.from(offset, chunk_bytes);
        let work = || {
            let columns = Columns::new(&columns).unwrap_or_default();
            ColumnWork::new(columns, Arc::clone(&choice))
        };
        let pipeline = Pipeline::start(scan.shared(), wanted, work).map_err(raise)?;
        Ok(Self {
            pipeline,
            names: columns,
            choice,
        })
    }

    /// The number of rows, their columns, the offset of the next chunk, and why this chunk ended.
    fn step<'py>(&self, py: Python<'py>) -> PyResult<(Rows<'py>, i64, &'static str)> {
        let chunk = next(py, &self.pipeline)?;
        let collected = match chunk.output {
            ColumnChunk::Columns(collected) => collected,
            ColumnChunk::Records(records) => {
                let mut columns = made_columns(&self.names)?;
                py.detach(|| columns.add(&records, &self.choice, &mut decompress))
                    .map_err(|error| column_error(py, &error))?;
                columns.take()
            }
        };
        let rows = (collected.rows, lent(py, collected)?);
        Ok((rows, chunk.next_offset, chunk.ended.as_str()))
    }
}

/// Collects stored messages as column buffers in Arrow's layout.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct ColumnBuilder {
    pub(super) columns: Mutex<Columns>,
}

#[pymethods]
impl ColumnBuilder {
    #[new]
    fn new(columns: Vec<String>) -> PyResult<Self> {
        let columns = Mutex::new(made_columns(&columns)?);
        Ok(Self { columns })
    }

    /// Messages collected since the last take.
    #[getter]
    fn rows(&self) -> usize {
        self.columns.lock().rows()
    }

    /// Approximate bytes collected since the last take.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.columns.lock().bytes()
    }

    /// Adds the records that pass the filter; returns their number.
    #[pyo3(signature = (
        body, *, topic=None, queue_ids=None, tags=None, first_queue_offset=0,
        end_queue_offset=i64::MAX, end_physical_offset=i64::MAX
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn add(
        &self,
        py: Python<'_>,
        body: &Bound<'_, PyBytes>,
        topic: Option<String>,
        queue_ids: Option<HashSet<i32>>,
        tags: Option<HashSet<String>>,
        first_queue_offset: i64,
        end_queue_offset: i64,
        end_physical_offset: i64,
    ) -> PyResult<usize> {
        let choice = Choice {
            topic,
            queue_ids,
            tags,
            first_queue_offset,
            end_queue_offset,
            end_physical_offset,
        };
        let records = body.as_bytes();
        // Locked without the GIL, because decompressing takes the GIL under this lock.
        let added = py.detach(|| self.columns.lock().add(records, &choice, &mut decompress));
        added.map_err(|error| column_error(py, &error))
    }

    /// Takes the collected columns, by name.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let collected = py.detach(|| self.columns.lock().take());
        lent(py, collected)
    }
}

/// Column name to layout.
pub fn layouts(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for (name, layout) in column_layouts() {
        all.set_item(name, layout)?;
    }
    Ok(all)
}

fn made_columns(names: &[String]) -> PyResult<Columns> {
    Columns::new(names).map_err(|unknown| {
        let known: Vec<_> = column_layouts().map(|(name, _)| name).collect();
        let known = known.join(", ");
        PyValueError::new_err(format!("unknown column '{unknown}'; there are: {known}"))
    })
}

/// Raises the codec's DecodeError.
pub(super) fn column_error(py: Python<'_>, error: &ColumnError) -> PyErr {
    if *error == ColumnError::TooLarge {
        return PyOverflowError::new_err(error.to_string());
    }
    let codec = py.import("mqcommon._codec");
    let kind = codec.and_then(|codec| codec.getattr("DecodeError"));
    match kind.and_then(|kind| kind.call1((error.to_string(),))) {
        Ok(made) => PyErr::from_value(made),
        Err(failed) => failed,
    }
}

/// Every column's memory, as Python objects.
fn lent(py: Python<'_>, collected: Collected) -> PyResult<Bound<'_, PyDict>> {
    let memory = |bytes| Memory { bytes };
    let text = |text: TextBuffers| {
        let validity = text.validity.map(memory);
        (validity, memory(text.ends), memory(text.values))
    };
    let columns = PyDict::new(py);
    for (name, buffers) in collected.columns {
        match buffers {
            Buffers::Numbers(values) => columns.set_item(name, (py.None(), memory(values)))?,
            Buffers::Texts(values) => columns.set_item(name, text(values))?,
            Buffers::Map(ends, pairs, names, values) => {
                let (_, name_ends, names) = text(names);
                let (_, value_ends, values) = text(values);
                let parts = (
                    memory(ends),
                    pairs,
                    (name_ends, names),
                    (value_ends, values),
                );
                columns.set_item(name, parts)?;
            }
        }
    }
    Ok(columns)
}
