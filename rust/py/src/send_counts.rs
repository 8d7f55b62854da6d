//! Counts the sends of a producer that have no outcome yet, in any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// Messages and bytes in flight, within limits that one send alone may exceed.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct SendCounts {
    messages_max: u64,
    bytes_max: u64,
    shared: Arc<Shared>,
    /// What the next send belongs to.
    current: Mutex<Py<Accepted>>,
}

/// The sends that were accepted between two flushes.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct Accepted {
    shared: Arc<Shared>,
    /// Those without an outcome; changes under the lock of `shared.counts`.
    messages: AtomicU64,
    is_flushed: AtomicBool,
}

struct Shared {
    counts: Mutex<Counts>,
    /// Called with an `Accepted` when sends of it have ended and somebody waits for that.
    on_left: Py<PyAny>,
}

#[derive(Default)]
struct Counts {
    messages: u64,
    bytes: u64,
    /// Whether sends wait for room; later ones must not overtake them.
    is_waited: bool,
}

#[pymethods]
impl SendCounts {
    #[new]
    fn new(
        py: Python<'_>,
        messages_max: u64,
        bytes_max: u64,
        on_left: Py<PyAny>,
    ) -> PyResult<Self> {
        let counts = Mutex::default();
        let shared = Arc::new(Shared { counts, on_left });
        Ok(Self {
            messages_max,
            bytes_max,
            current: Mutex::new(Accepted::new(py, &shared)?),
            shared,
        })
    }

    #[getter]
    fn messages(&self) -> u64 {
        self.shared.counts.lock().messages
    }

    #[getter]
    fn size(&self) -> u64 {
        self.shared.counts.lock().bytes
    }

    fn accept(&self, py: Python<'_>, count: u64, size: u64) -> Option<Py<Accepted>> {
        let mut counts = self.shared.counts.lock();
        if counts.is_waited {
            return None;
        }
        self.add(py, &mut counts, count, size, 4)
    }

    fn accept_waiting(
        &self,
        py: Python<'_>,
        count: u64,
        size: u64,
        quarters: u64,
    ) -> Option<Py<Accepted>> {
        self.add(py, &mut self.shared.counts.lock(), count, size, quarters)
    }

    fn wait(&self, is_waited: bool) {
        self.shared.counts.lock().is_waited = is_waited;
    }

    fn begin_flush(&self, py: Python<'_>) -> PyResult<Py<Accepted>> {
        let next = Accepted::new(py, &self.shared)?;
        let _counts = self.shared.counts.lock();
        let flushed = std::mem::replace(&mut *self.current.lock(), next);
        flushed.get().is_flushed.store(true, Ordering::Relaxed);
        Ok(flushed)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.shared.on_left)
    }
}

impl SendCounts {
    /// Counts a send if there is room for it in the first `quarters` of the limits.
    fn add(
        &self,
        py: Python<'_>,
        counts: &mut Counts,
        count: u64,
        size: u64,
        quarters: u64,
    ) -> Option<Py<Accepted>> {
        let (messages, bytes) = (counts.messages + count, counts.bytes + size);
        let fits = |sum, max| u128::from(sum) * 4 <= u128::from(max) * u128::from(quarters);
        let is_full = !fits(messages, self.messages_max) || !fits(bytes, self.bytes_max);
        if is_full && counts.messages > 0 {
            return None;
        }
        (counts.messages, counts.bytes) = (messages, bytes);
        let accepted = self.current.lock().clone_ref(py);
        accepted.get().messages.fetch_add(count, Ordering::Relaxed);
        Some(accepted)
    }
}

#[pymethods]
impl Accepted {
    #[getter]
    fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    pub(super) fn leave(slf: &Bound<'_, Self>, count: u64, size: u64) -> PyResult<()> {
        let accepted = slf.get();
        let mut counts = accepted.shared.counts.lock();
        counts.messages -= count;
        counts.bytes -= size;
        accepted.messages.fetch_sub(count, Ordering::Relaxed);
        let is_awaited = counts.is_waited || accepted.is_flushed.load(Ordering::Relaxed);
        drop(counts); // `on_left` may count again
        if is_awaited {
            accepted.shared.on_left.call1(slf.py(), (slf,))?;
        }
        Ok(())
    }
}

impl Accepted {
    fn new(py: Python<'_>, shared: &Arc<Shared>) -> PyResult<Py<Self>> {
        let accepted = Self {
            shared: shared.clone(),
            messages: AtomicU64::new(0),
            is_flushed: AtomicBool::new(false),
        };
        Py::new(py, accepted)
    }
}
