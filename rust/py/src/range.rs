//! Python door of the range reader: ranges of queues become columns, or are searched, without a
//! Python object per message.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping};
use tokio::runtime::Runtime;

use super::client::{io_runtime, read_settings};
use super::conditions::Conditions;
use super::credentials;
use super::forks;
use super::mappings::{optional, required, seconds};
use super::offline::decompress;
use super::pipeline::{ColumnBuilder, column_error};

use mq_bulk::range::{Limits, Loss, Next, Part, Plan, RangeError, Subscription, Why};
use mq_bulk::search::Selection;
use mq_render::Choice;

create_exception!(
    mqcommon._core,
    RangeFailed,
    PyException,
    "A range cannot be read on."
);

/// Interval between two checks for Ctrl-C.
const POLL: Duration = Duration::from_millis(50);

/// What `fill` returns: whether the range ended, and its losses since the last call.
type Filled = (bool, Losses);
type Losses = Vec<(i64, i64, String)>;

/// What `search` returns; `_core.pyi` names the values.
type Searched<'py> = (
    bool,
    Bound<'py, PyBytes>,
    usize,
    i64,
    Option<i64>,
    Losses,
    i64,
);

/// Reads ranges of queues into columns, one range after another.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct RangeReader {
    /// None once closed.
    open: Mutex<Option<Open>>,
    /// The process that made the thread. A forked child has no copy of it.
    forks: u32,
}

/// The fields end in this order: the reader closes its connections before the runtime ends.
struct Open {
    reader: mq_bulk::range::RangeReader,
    /// The tags wanted in each range from the first unread one on. The broker compares hashes only.
    choices: std::vec::IntoIter<Choice>,
    /// The choice of the range that is being read.
    choice: Choice,
    runtime: Runtime,
}

#[pymethods]
impl RangeReader {
    #[new]
    fn new(settings: &Bound<'_, PyDict>, plans: Vec<Bound<'_, PyMapping>>) -> PyResult<Self> {
        let account = credentials::read(settings)?;
        let settings = read_settings(settings)?;
        let runtime = io_runtime().map_err(|error| PyOSError::new_err(error.to_string()))?;
        let handle = runtime.handle().clone();
        let mut reader = mq_bulk::range::RangeReader::new(handle, settings, account);
        let mut choices = Vec::with_capacity(plans.len());
        for given in plans {
            let (plan, choice) = read_plan(&given)?;
            reader.add(plan);
            choices.push(choice);
        }
        let mut choices = choices.into_iter();
        let open = Open {
            reader,
            choice: choices.next().unwrap_or_default(),
            choices,
            runtime,
        };
        Ok(Self {
            open: Mutex::new(Some(open)),
            forks: forks::count(),
        })
    }

    fn fill(
        &self,
        py: Python<'_>,
        builder: &Bound<'_, ColumnBuilder>,
        rows: usize,
        size_bytes: usize,
    ) -> PyResult<Filled> {
        self.check_process()?;
        let builder = builder.get();
        let mut losses = Vec::new();
        loop {
            // Locked without the GIL, because decompressing takes the GIL under these locks.
            let step = py.detach(|| {
                let mut open = self.open.lock();
                let open = open.as_mut().ok_or(Failed::Closed)?;
                open.fill(builder, rows, size_bytes, &mut losses)
            });
            match step {
                Ok(Some(is_end)) => return Ok((is_end, losses)),
                Ok(None) => py.check_signals()?,
                Err(failed) => return Err(failed.into_python(py)),
            }
        }
    }

    #[pyo3(signature = (conditions, *, timeout, size_bytes, messages))]
    fn search<'py>(
        &self,
        py: Python<'py>,
        conditions: &Bound<'py, Conditions>,
        timeout: f64,
        size_bytes: usize,
        messages: usize,
    ) -> PyResult<Searched<'py>> {
        self.check_process()?;
        let conditions = &conditions.get().compiled;
        let deadline = Instant::now() + seconds(timeout);
        // Locked without the GIL, because decompressing takes the GIL under this lock.
        let step = py.detach(|| {
            let mut open = self.open.lock();
            let open = open.as_mut().ok_or(Failed::Closed)?;
            let mut step = Step::default();
            while !step.is_end && step.found.messages < messages {
                let wait = deadline.saturating_duration_since(Instant::now());
                match open.reader.next(wait).map_err(Failed::Range)? {
                    Next::Part(part) => step.take(&part, conditions, messages),
                    Next::Waiting => break,
                    Next::End => step.is_end = true,
                }
                if step.found.records.len() >= size_bytes || wait.is_zero() {
                    break;
                }
            }
            Ok(step)
        });
        let step = step.map_err(|failed: Failed| failed.into_python(py))?;
        let records = PyBytes::new(py, &step.found.records);
        let Selection {
            messages, not_json, ..
        } = step.found;
        Ok((
            step.is_end,
            records,
            messages,
            step.covered,
            step.next,
            step.losses,
            not_json,
        ))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.end());
    }
}

/// The outcome of one call of `search`.
#[derive(Default)]
struct Step {
    is_end: bool,
    found: Selection,
    /// Offsets searched.
    covered: i64,
    /// Where the search continues; None if no offset was searched.
    next: Option<i64>,
    losses: Losses,
}

impl Step {
    fn take(&mut self, part: &Part, conditions: &mq_bulk::search::Conditions, messages_max: usize) {
        let found = &mut self.found;
        let stop = found.add(&part.records, conditions, messages_max, &mut decompress);
        let next = stop.unwrap_or(part.next);
        self.covered += next - part.first;
        self.next = Some(next);
        self.losses.extend(part.losses.iter().map(told));
        let unsearched = found.unsearched.drain(..);
        self.losses.extend(unsearched.map(|(offset, why)| {
            let text = format!("the body at offset {offset} cannot be searched: {why}");
            (offset, 1, text)
        }));
    }
}

/// Why `fill` cannot continue.
enum Failed {
    Closed,
    Range(Box<RangeError>),
    Column(mq_render::ColumnError),
}

impl Open {
    /// Fills columns until they are full or the range ends, and then says whether it has ended;
    /// None if nothing came in time.
    fn fill(
        &mut self,
        builder: &ColumnBuilder,
        rows: usize,
        size_bytes: usize,
        losses: &mut Losses,
    ) -> Result<Option<bool>, Failed> {
        let mut columns = builder.columns.lock();
        while columns.rows() < rows && columns.bytes() < size_bytes {
            let next = self.reader.next(POLL);
            match next.map_err(Failed::Range)? {
                Next::Part(part) => {
                    losses.extend(part.losses.iter().map(told));
                    columns
                        .add(&part.records, &self.choice, &mut decompress)
                        .map_err(Failed::Column)?;
                }
                Next::Waiting => return Ok(None),
                Next::End => {
                    self.choice = self.choices.next().unwrap_or_default();
                    return Ok(Some(true));
                }
            }
        }
        Ok(Some(false))
    }
}

fn told(loss: &Loss) -> (i64, i64, String) {
    (loss.offset, loss.count, loss.to_string())
}

impl RangeReader {
    fn check_process(&self) -> PyResult<()> {
        if self.forks == forks::count() {
            return Ok(());
        }
        let text = "this reader was made in another process; make a new one after a fork";
        Err(PyRuntimeError::new_err(text))
    }

    fn end(&self) {
        let Some(Open {
            reader, runtime, ..
        }) = self.open.lock().take()
        else {
            return;
        };
        if self.forks == forks::count() {
            drop(reader);
            runtime.shutdown_background();
        } else {
            std::mem::forget((reader, runtime)); // the thread is in the parent: joining would hang
        }
    }
}

impl Drop for RangeReader {
    fn drop(&mut self) {
        self.end();
    }
}

impl Failed {
    fn into_python(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Closed => PyRuntimeError::new_err("this reader is closed"),
            Self::Column(error) => column_error(py, &error),
            Self::Range(error) => {
                let (kind, code, remark) = match &error.why {
                    Why::NoReply(failure) => (failure.category(), 0, failure.to_string()),
                    Why::Busy { code, remark } | Why::Refused { code, remark } => {
                        ("refused", *code, remark.clone())
                    }
                    Why::Behind | Why::Broken(_) => ("broken", 0, String::new()),
                };
                let text = error.to_string();
                RangeFailed::new_err((kind, error.address, code, remark, text))
            }
        }
    }
}

/// Reads the fields of `Plan` by name, and which records of the replies are wanted.
fn read_plan(given: &Bound<'_, PyMapping>) -> PyResult<(Plan, Choice)> {
    let tags: Option<Vec<String>> = optional(given, "tags")?;
    let sql: Option<String> = optional(given, "filter")?;
    let subscription = match (&tags, sql) {
        (Some(_), Some(_)) => {
            let text = "tags and filter exclude each other: give one of them";
            return Err(PyValueError::new_err(text));
        }
        (Some(tags), None) => Subscription::Tags(tags.join("||")),
        (None, Some(condition)) => Subscription::Sql92(condition),
        (None, None) => Subscription::All,
    };
    let plan = Plan {
        master: optional(given, "master")?,
        slave: optional(given, "slave")?,
        broker_name: required(given, "broker_name")?,
        topic: required(given, "topic")?,
        queue_id: required(given, "queue_id")?,
        first: required(given, "first")?,
        end: required(given, "end")?,
        group: required(given, "group")?,
        subscription,
        limits: Limits {
            count_max: required(given, "pull_count")?,
            in_flight_max: required(given, "pulls_in_flight")?,
            waiting_bytes_max: required(given, "waiting_bytes")?,
        },
        pull_timeout: seconds(required(given, "timeout")?),
        outage_budget: seconds(required(given, "retry_timeout")?),
    };
    plan.check().map_err(PyValueError::new_err)?;
    let tags = tags.map(HashSet::from_iter);
    let choice = Choice {
        tags,
        ..Choice::default()
    };
    Ok((plan, choice))
}
