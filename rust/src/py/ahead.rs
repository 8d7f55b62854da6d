//! Python doors of work done ahead on the log.

use std::os::raw::c_int;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::errors::raise;
use super::offline::{Scan, body_text, check_of, decompress};
use crate::store::scan::{self, Ahead, LineWork, LinesMade, Made, Sink};

/// How often Ctrl-C is looked for.
const POLL: Duration = Duration::from_millis(50);

/// Bytes that native code made, lent by the buffer protocol; their memory is used again once
/// nobody has it.
#[pyclass(frozen, module = "mqstore._core")]
pub struct Memory {
    bytes: Sink,
}

#[pymethods]
impl Memory {
    fn __len__(&self) -> usize {
        self.bytes.as_bytes().len()
    }

    /// Lends them for reading.
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

/// What `mqstore.offline.Wanted` says.
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
    fn from(self, offset: i64, chunk_bytes: usize) -> scan::Wanted {
        scan::Wanted {
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
fn next<T: Send + 'static>(py: Python<'_>, ahead: &Ahead<T>) -> PyResult<Made<T>> {
    loop {
        if let Some(made) = py.detach(|| ahead.take(POLL)) {
            return made.map_err(raise);
        }
        py.check_signals()?;
    }
}

/// The records of the log as JSON lines, rendered ahead.
#[pyclass(frozen, module = "mqstore._core")]
pub struct LinesAhead {
    ahead: Ahead<LinesMade>,
    body: scan::BodyText,
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
        let ahead = Ahead::start(scan.shared(), wanted, || LineWork::new(body)).map_err(raise)?;
        Ok(Self { ahead, body })
    }

    /// The next lines, where the chunk after them begins, and why they ended.
    fn step(&self, py: Python<'_>) -> PyResult<(Memory, i64, &'static str)> {
        let made = next(py, &self.ahead)?;
        let bytes = match made.made {
            LinesMade::Lines(lines) => lines,
            LinesMade::Records(records) => py
                .detach(|| scan::json_lines(&records, self.body, &mut decompress))
                .map_err(|error| PyValueError::new_err(error.to_string()))?,
        };
        Ok((Memory { bytes }, made.next_offset, made.ended.as_str()))
    }
}
