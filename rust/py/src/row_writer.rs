//! Python door of the writer of rows.

use std::collections::HashSet;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTypeInfo, create_exception};
use tokio::runtime::Runtime;

use super::arrow_rows::ArrowRows;
use super::client::{io_runtime, read_settings};
use super::credentials;
use super::forks;
use super::frames::duration;

use mq_bulk::write::{
    IdOrigin, Plan, Progress, Queue, Receipt, Routes, Rows, Why, WriteError, Writer,
};

create_exception!(
    mqcommon._core,
    SendFailed,
    pyo3::exceptions::PyException,
    "A send of rows failed; the arguments say how."
);

/// Interval between two checks for Ctrl-C.
const POLL: Duration = Duration::from_millis(50);
/// How long outcomes of earlier sends are awaited after an error.
const SETTLE: Duration = Duration::from_secs(1);

/// The fields of `Plan` that hold for every task.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PlanFields {
    group: String,
    topic: Option<String>,
    request_timeout: f64,
    retry_timeout: f64,
    message_bytes_max: usize,
    rate: Option<f64>,
    reserved: HashSet<String>,
    first_queue: usize,
}

impl PlanFields {
    fn plan(self) -> PyResult<Plan> {
        let ids = IdOrigin {
            prefix: [b'0'; 20],
            month_ms: 0,
        };
        Ok(Plan {
            group: self.group,
            topic: self.topic,
            request_timeout: duration(self.request_timeout)?,
            retry_timeout: duration(self.retry_timeout)?,
            message_bytes_max: self.message_bytes_max,
            rate: self.rate.filter(|rate| *rate > 0.0),
            row_id: String::new(),
            reserved: self.reserved,
            ids,
            first_queue: self.first_queue,
        })
    }
}

/// First row and number of rows, each run of them.
type Runs = Vec<(u64, u64)>;
type Stored = (Runs, String, String, i32, i64);

/// Writes the rows of one task after the other; the connections stay open.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct RowWriter {
    routes: Py<PyAny>,
    /// None once closed. Locked without the GIL only, which the routes need.
    writer: Mutex<Option<(Writer, Runtime)>>,
    forks: u32,
}

#[pymethods]
impl RowWriter {
    #[new]
    fn new(settings: &Bound<'_, PyDict>, plan: PlanFields, routes: Py<PyAny>) -> PyResult<Self> {
        let credentials = credentials::read(settings)?;
        let settings = read_settings(settings)?;
        let failed = |error: std::io::Error| PyOSError::new_err(error.to_string());
        let runtime = io_runtime().map_err(failed)?;
        let writer = Writer::new(
            runtime.handle().clone(),
            settings,
            credentials,
            plan.plan()?,
        );
        Ok(Self {
            routes,
            writer: Mutex::new(Some((writer, runtime))),
            forks: forks::count(),
        })
    }

    fn start(
        &self,
        py: Python<'_>,
        row_id: String,
        id_prefix: &str,
        month_ms: i64,
    ) -> PyResult<()> {
        let prefix = id_prefix.as_bytes().try_into();
        let prefix = prefix.map_err(|_| PyValueError::new_err("an id's prefix has 20 digits"))?;
        let ids = IdOrigin { prefix, month_ms };
        self.with(py, |writer| {
            writer.start(row_id, ids);
            Ok(())
        })
    }

    fn write(
        &self,
        py: Python<'_>,
        rows: usize,
        columns: &Bound<'_, PyDict>,
    ) -> PyResult<Vec<Stored>> {
        let columns = ArrowRows::read(rows, columns)?;
        let rows = columns.rows()?;
        let mut next = 0;
        let mut turn = |writer: &mut Writer, routes: &mut PythonRoutes<'_>| {
            add_until(writer, &rows, &mut next, routes, Instant::now() + POLL)
        };
        self.run(py, &mut turn)
    }

    fn finish(&self, py: Python<'_>) -> PyResult<Vec<Stored>> {
        let mut turn = |writer: &mut Writer, routes: &mut PythonRoutes<'_>| {
            writer.close();
            writer.step(routes, POLL, true)
        };
        self.run(py, &mut turn)
    }

    /// Rows handed over, rows stored, the first row that is not stored.
    fn progress(&self, py: Python<'_>) -> PyResult<(u64, u64, u64)> {
        let progress = self.with(py, |writer| Ok(writer.progress()))?;
        let Progress {
            rows,
            stored,
            first_missing,
        } = progress;
        Ok((rows, stored, first_missing))
    }

    fn close(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        self.check_process()?;
        let timeout = duration(timeout)?;
        py.detach(|| {
            if let Some((writer, runtime)) = self.writer.lock().take() {
                drop(writer); // closes the connections
                runtime.shutdown_timeout(timeout);
            }
        });
        Ok(())
    }
}

/// Adds rows, and sends, until all rows are added (true) or a deadline has passed.
fn add_until(
    writer: &mut Writer,
    rows: &Rows<'_>,
    next: &mut usize,
    routes: &mut dyn Routes,
    deadline: Instant,
) -> Result<bool, WriteError> {
    loop {
        *next = writer.add(rows, *next, routes)?;
        let left = deadline.saturating_duration_since(Instant::now());
        let has_room = writer.step(routes, left, false)?;
        if has_room && *next == rows.len {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}

type Turn<'t> =
    dyn FnMut(&mut Writer, &mut PythonRoutes<'_>) -> Result<bool, WriteError> + Send + 't;

impl RowWriter {
    /// Runs turns until one is the last; returns the rows stored since then.
    fn run(&self, py: Python<'_>, turn: &mut Turn<'_>) -> PyResult<Vec<Stored>> {
        loop {
            let mut routes = PythonRoutes(&self.routes);
            let is_done = self.with(py, |writer| {
                turn(writer, &mut routes).inspect_err(|_| writer.settle(SETTLE))
            })?;
            if is_done {
                let receipts = self.with(py, |writer| Ok(writer.take_receipts()))?;
                return Ok(receipts.into_iter().map(stored).collect());
            }
            py.check_signals()?;
        }
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Writer) -> Result<T, WriteError> + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        let done = py.detach(|| Some(work(&mut self.writer.lock().as_mut()?.0)));
        let done = done.ok_or_else(|| PyRuntimeError::new_err("the writer is closed"))?;
        done.map_err(|error| raise(py, &error))
    }

    fn check_process(&self) -> PyResult<()> {
        if self.forks == forks::count() {
            return Ok(());
        }
        let text = "this writer was made in another process; make a new one after a fork";
        Err(PyRuntimeError::new_err(text))
    }
}

impl Drop for RowWriter {
    fn drop(&mut self) {
        let Some((writer, runtime)) = self.writer.get_mut().take() else {
            return;
        };
        if self.forks == forks::count() {
            drop(writer);
            runtime.shutdown_background();
        } else {
            std::mem::forget((writer, runtime)); // its threads and sockets are the parent's
        }
    }
}

/// Asks a function of Python for the queues of topics.
struct PythonRoutes<'a>(&'a Py<PyAny>);

impl Routes for PythonRoutes<'_> {
    fn queues(
        &mut self,
        topic: &str,
        is_again: bool,
    ) -> Result<Vec<Queue>, Arc<dyn Error + Send + Sync>> {
        let found = Python::attach(|py| {
            let found = self.0.call1(py, (topic, is_again))?;
            found.extract::<Vec<(String, String, i32)>>(py)
        });
        let queue = |(broker, address, id): (String, String, i32)| Queue {
            broker: broker.into(),
            address: address.into(),
            id,
        };
        match found {
            Ok(found) => Ok(found.into_iter().map(queue).collect()),
            Err(error) => Err(Arc::new(error)),
        }
    }
}

fn stored(receipt: Receipt) -> Stored {
    let runs = receipt.rows.iter().map(|run| (run.first, run.count));
    (
        runs.collect(),
        receipt.topic,
        receipt.broker,
        receipt.queue_id,
        receipt.first_offset,
    )
}

/// Converts an error: a ValueError for a row, the routes' own exception, or `SendFailed` with
/// category, broker, address, code and text.
fn raise(py: Python<'_>, error: &WriteError) -> PyErr {
    match error {
        WriteError::BadRow { .. } => PyValueError::new_err(error.to_string()),
        WriteError::NoRoute(error) => match error.downcast_ref::<PyErr>() {
            Some(raised) => raised.clone_ref(py),
            None => PyRuntimeError::new_err(error.to_string()),
        },
        WriteError::Send {
            broker,
            address,
            why,
        } => {
            let (category, code, text) = match why {
                Why::Refused { code, remark } => ("refused", *code, remark.clone()),
                Why::Failed(failure) => (failure.category(), 0, failure.to_string()),
            };
            let arguments = (category, broker.clone(), address.clone(), code, text);
            PyErr::from_type(SendFailed::type_object(py), arguments)
        }
    }
}
