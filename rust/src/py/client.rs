//! Python door of `client`: a pool whose events are drained by Python after a wake-up byte.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tokio::runtime::Runtime;

use super::frames::{Submission, duration, frame_to_python};

use crate::client::events::{Events, Failure};
use crate::client::pool::{Pool, PoolSettings};

/// Connections to servers; requests go in with a token, outcomes come out of `drain`.
#[pyclass(frozen, module = "mqstore._core")]
pub struct Connector {
    pool: Pool,
    inbox: Arc<Inbox>,
    /// None once closed.
    runtime: Mutex<Option<Runtime>>,
    /// Threads do not survive a fork: only this process may use them.
    process: u32,
}

#[pymethods]
impl Connector {
    #[new]
    fn new(wake_fd: i32, settings: &Bound<'_, PyDict>) -> PyResult<Self> {
        let settings = read_settings(settings)?;
        let failed = |error: std::io::Error| PyOSError::new_err(error.to_string());
        // SAFETY: the descriptor is only borrowed for the duplication, which checks it.
        let wake = unsafe { BorrowedFd::borrow_raw(wake_fd) };
        let inbox = Arc::new(Inbox {
            wake: wake.try_clone_to_owned().map_err(failed)?,
            events: Mutex::default(),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("mqclient-io")
            .enable_all()
            .build()
            .map_err(failed)?;
        let pool = Pool::new(runtime.handle().clone(), settings, inbox.clone());
        let process = std::process::id();
        Ok(Self {
            pool,
            inbox,
            runtime: Mutex::new(Some(runtime)),
            process,
        })
    }

    fn submit(&self, requests: &Bound<'_, PyList>) -> PyResult<()> {
        self.check_process()?;
        let mut readable = Vec::with_capacity(requests.len());
        for request in requests {
            match Submission::read(&request) {
                Ok(submission) => readable.push(submission),
                Err(error) => {
                    let token = request.get_item(1)?.extract()?;
                    self.inbox
                        .failed(token, Failure::BadFrame(error.to_string()));
                }
            }
        }
        // What goes to the same server one after the other goes with one write.
        for same in readable.chunk_by(|one, next| one.address == next.address) {
            let mut batch = self.pool.batch();
            same.iter()
                .for_each(|submission| submission.add_to(&mut batch));
            self.pool.submit(&same[0].address, batch);
        }
        self.inbox.settled();
        Ok(())
    }

    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.check_process()?;
        let events = self.inbox.take();
        PyList::new(
            py,
            events
                .iter()
                .map(|event| event.to_python(py))
                .collect::<PyResult<Vec<_>>>()?,
        )
    }

    fn reply(&self, address: &str, frame: Vec<u8>) -> PyResult<()> {
        self.check_process()?;
        self.pool.reply(address, frame);
        Ok(())
    }

    fn close(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        self.check_process()?;
        let timeout = duration(timeout)?;
        let runtime = self.runtime.lock().take();
        self.pool.close();
        py.detach(|| runtime.map(|runtime| runtime.shutdown_timeout(timeout)));
        Ok(())
    }
}

impl Connector {
    fn check_process(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let text = "this client was started in another process; make a new one after a fork";
        Err(PyRuntimeError::new_err(text))
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        let runtime = self.runtime.lock().take();
        if self.process == std::process::id() {
            self.pool.close();
            if let Some(runtime) = runtime {
                runtime.shutdown_background();
            }
        } else {
            std::mem::forget(runtime); // its threads are in the parent: joining would hang
        }
    }
}

/// Requests of servers kept for a Python that does not fetch them; later ones are dropped.
const UNREAD_REQUESTS_MAX: usize = 100_000;

/// Events until Python fetches them. Bounded by the requests in flight and `UNREAD_REQUESTS_MAX`.
struct Inbox {
    wake: OwnedFd,
    events: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    events: Vec<Event>,
    /// The wake-up byte was written and `drain` has not run since.
    woken: bool,
}

enum Event {
    Reply(u64, Vec<u8>),
    Failed(u64, Failure),
    Written(u64),
    Request(String, Vec<u8>),
    Closed(String),
}

impl Event {
    /// `(token, kind, payload)` as the stub describes it.
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Reply(token, frame) => {
                (*token, 0, frame_to_python(py, frame)?).into_bound_py_any(py)
            }
            Self::Failed(token, failure) => {
                (*token, 1, (failure.category(), failure.to_string())).into_bound_py_any(py)
            }
            Self::Written(token) => (*token, 2, py.None()).into_bound_py_any(py),
            Self::Request(address, frame) => {
                (0, 3, (address, frame_to_python(py, frame)?)).into_bound_py_any(py)
            }
            Self::Closed(address) => (0, 4, address).into_bound_py_any(py),
        }
    }
}

impl Inbox {
    fn push(&self, event: Event) {
        self.events.lock().events.push(event);
    }

    fn take(&self) -> Vec<Event> {
        let mut pending = self.events.lock();
        pending.woken = false;
        std::mem::take(&mut pending.events)
    }
}

impl Events for Inbox {
    fn reply(&self, token: u64, frame: &[u8]) {
        self.push(Event::Reply(token, frame.to_vec()));
    }

    fn failed(&self, token: u64, failure: Failure) {
        self.push(Event::Failed(token, failure));
    }

    fn written(&self, token: u64) {
        self.push(Event::Written(token));
    }

    fn request(&self, address: &str, frame: &[u8]) {
        let mut pending = self.events.lock();
        if pending.events.len() < UNREAD_REQUESTS_MAX {
            pending
                .events
                .push(Event::Request(address.to_owned(), frame.to_vec()));
        }
    }

    fn closed(&self, address: &str) {
        self.push(Event::Closed(address.to_owned()));
    }

    fn settled(&self) {
        let mut pending = self.events.lock();
        if pending.events.is_empty() || pending.woken {
            return;
        }
        pending.woken = true;
        drop(pending);
        // A full pipe has a byte that was not read yet, and a closed one has no reader: either
        // way there is nothing to do.
        let _ = rustix::io::write(&self.wake, &[1]);
    }
}

/// Reads the settings by the names of `PoolSettings`; times are in seconds.
fn read_settings(given: &Bound<'_, PyDict>) -> PyResult<PoolSettings> {
    let mut settings = PoolSettings::default();
    for (name, value) in given.iter() {
        let name: String = name.extract()?;
        match name.as_str() {
            "connect_timeout" => settings.connect_timeout = duration(value.extract()?)?,
            "idle_timeout" => settings.idle_timeout = duration(value.extract()?)?,
            "max_frame_bytes" => settings.max_frame_bytes = value.extract()?,
            "in_flight_max" => settings.in_flight_max = value.extract()?,
            "outbound_limit_bytes" => settings.outbound_limit_bytes = value.extract()?,
            _ => return Err(PyValueError::new_err(format!("no setting named {name:?}"))),
        }
    }
    Ok(settings)
}
