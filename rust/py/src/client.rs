//! Python door of `client`: a pool whose events are drained by Python after a wake-up byte.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use tokio::runtime::Runtime;

use super::credentials;
use super::forks;
use super::frame_template::{FrameTemplate, ReplyKind};
use super::frames::{Submission, duration};
use super::futures::{Futures, Waiting};
use super::inbox::{Inbox, READ, SEATED, WRITTEN, number_of, token_of};
use super::outbox::Outbox;
use super::pending::{Ended, Pending};
use super::signals::check_interval;
use super::tls;

use mq_client::credentials::Credentials;
use mq_client::events::{Events, Failure};
use mq_client::pool::Pool;
use mq_client::settings::PoolSettings;
use mq_net::threads::can_start;

/// The result of `drain`: futures with their replies, and all other events.
type Drained<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>);

/// Connections to servers. A request is submitted with a future; `drain` returns the outcomes.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct Connector {
    pool: Arc<Pool>,
    inbox: Arc<Inbox>,
    futures: Futures,
    /// Requests of `request` and `post` until they are written.
    outbox: Arc<Outbox>,
    /// Number of the next request of `call`, for its token.
    calls: AtomicU64,
    /// Signs every request, if given.
    credentials: Option<Credentials>,
    closed: AtomicBool,
    /// None once closed.
    runtime: Mutex<Option<Runtime>>,
    /// The process that made the threads. A forked child has no copy of them.
    forks: u32,
}

#[pymethods]
impl Connector {
    #[new]
    fn new(wake_fd: i32, settings: &Bound<'_, PyDict>) -> PyResult<Self> {
        let credentials = credentials::read(settings)?;
        let settings = read_settings(settings)?;
        let failed = |error: std::io::Error| PyOSError::new_err(error.to_string());
        // SAFETY: the descriptor is only borrowed for the duplication, which checks it.
        let wake = unsafe { BorrowedFd::borrow_raw(wake_fd) };
        let inbox = Arc::new(Inbox::new(wake.try_clone_to_owned().map_err(failed)?));
        let runtime = io_runtime().map_err(failed)?;
        let pool = Arc::new(Pool::new(runtime.handle().clone(), settings, inbox.clone()));
        let outbox = Arc::new(Outbox::new(pool.clone()));
        inbox.on_replies(&outbox);
        runtime.spawn(outbox.clone().keep_flushing());
        Ok(Self {
            pool,
            inbox,
            futures: Futures::default(),
            outbox,
            calls: AtomicU64::new(1),
            credentials,
            closed: AtomicBool::new(false),
            runtime: Mutex::new(Some(runtime)),
            forks: forks::count(),
        })
    }

    #[allow(clippy::too_many_arguments)] // one call from Python, instead of one and a tuple
    fn request(
        &self,
        template: &Bound<'_, FrameTemplate>,
        values: &Bound<'_, PyTuple>,
        body: &Bound<'_, PyBytes>,
        timeout: f64,
        future: Py<PyAny>,
        oneway: bool,
        flush_comes: bool,
    ) -> PyResult<bool> {
        let waiting = waiting_of(template, future, false);
        let (alone, is_full) = self.collect(template, values, body, timeout, waiting, oneway)?;
        Ok(is_full || (alone && !flush_comes))
    }

    fn post(
        &self,
        template: &Bound<'_, FrameTemplate>,
        values: &Bound<'_, PyTuple>,
        body: &Bound<'_, PyBytes>,
        timeout: f64,
        pending: &Bound<'_, Pending>,
        oneway: bool,
    ) -> PyResult<()> {
        let waiting = waiting_of(template, pending.clone().into_any().unbind(), true);
        if self.closed.load(Ordering::Acquire) {
            return Err(PyRuntimeError::new_err("the client is closed"));
        }
        let (alone, is_full) = self.collect(template, values, body, timeout, waiting, oneway)?;
        if alone {
            return self.flush();
        }
        self.outbox.flush_soon(is_full);
        Ok(())
    }

    fn flush(&self) -> PyResult<()> {
        self.check_process()?;
        self.outbox.flush();
        self.inbox.settled();
        Ok(())
    }

    fn call<'py>(
        &self,
        template: &Bound<'py, FrameTemplate>,
        values: &Bound<'py, PyTuple>,
        body: &Bound<'py, PyBytes>,
        timeout: f64,
    ) -> PyResult<(u8, Bound<'py, PyAny>)> {
        self.check_process()?;
        let (py, template) = (template.py(), template.get());
        let values = template.values(values)?;
        let timeout = duration(timeout)?;
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let token = token_of(call, template.kind) | SEATED;
        let seat = self.inbox.seat(token);
        let mut batch = self.pool.batch();
        batch.add(token, timeout, false, |opaque, out| {
            let signed = self.credentials.as_ref();
            template.encode(opaque, &values, body.as_bytes(), false, signed, out)
        });
        let slice = check_interval();
        // Without returning to Python in between, which would wait for the GIL.
        let mut outcome = py.detach(|| {
            self.pool.submit(&template.target, batch);
            seat.wait(slice)
        });
        loop {
            if let Some(outcome) = outcome {
                return outcome.into_python(py);
            }
            py.check_signals()
                .inspect_err(|_| self.inbox.leave(token))?;
            outcome = py.detach(|| seat.wait(slice));
        }
    }

    fn submit(&self, requests: &Bound<'_, PyList>) -> PyResult<()> {
        self.check_process()?;
        let mut readable = Vec::with_capacity(requests.len());
        for request in requests {
            let address = request.get_item(0)?.unbind();
            let future = request.get_item(1)?.unbind();
            let (number, _) = self.futures.keep(Waiting {
                future,
                is_pending: false,
                address,
            });
            let token = token_of(number, ReplyKind::Frame);
            match Submission::read(&request) {
                Ok(submission) => readable.push((token, submission)),
                Err(error) => self
                    .inbox
                    .failed(token, Failure::BadFrame(error.to_string())),
            }
        }
        // Consecutive requests to the same server are sent with one write.
        for same in readable.chunk_by(|(_, one), (_, next)| one.address == next.address) {
            let mut batch = self.pool.batch();
            for (token, submission) in same {
                submission.add_to(&mut batch, *token, self.credentials.as_ref());
            }
            self.pool.submit(&same[0].1.address, batch);
        }
        self.inbox.settled();
        Ok(())
    }

    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Drained<'py>> {
        self.check_process()?;
        let (mut futures, mut replies, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let mut ended = Ended::default();
        for event in self.inbox.take() {
            let waiting = event
                .token()
                .and_then(|token| self.futures.take(number_of(token)));
            let event = match &waiting {
                Some(waiting) if waiting.is_pending => {
                    match ended.settle(waiting.future.bind(py), event)? {
                        Some(event) => event,
                        None => continue,
                    }
                }
                _ => event,
            };
            let (kind, payload) = event.into_python(py)?;
            match waiting {
                Some(Waiting { future, .. }) if kind == READ || kind == WRITTEN => {
                    futures.push(future);
                    replies.push(payload);
                }
                Some(Waiting {
                    future, address, ..
                }) => {
                    others.push((kind, payload, Some(future), Some(address)));
                }
                None => others.push((kind, payload, None, None)),
            }
        }
        ended.leave(py)?;
        Ok((
            PyList::new(py, futures)?,
            PyList::new(py, replies)?,
            PyList::new(py, others)?,
        ))
    }

    fn reply(&self, address: &str, frame: Vec<u8>) -> PyResult<()> {
        self.check_process()?;
        self.pool.reply(address, frame);
        Ok(())
    }

    fn renew_tls(&self, tls: &Bound<'_, PyMapping>) -> PyResult<()> {
        self.check_process()?;
        self.pool.renew_tls(tls::renewed(tls)?);
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.futures.traverse(&visit)
    }

    fn __clear__(&self) {
        self.futures.clear();
    }

    fn close(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        self.check_process()?;
        let timeout = duration(timeout)?;
        self.closed.store(true, Ordering::Release);
        let runtime = self.runtime.lock().take();
        self.pool.close();
        self.outbox.flush(); // what was posted last fails now
        py.detach(|| runtime.map(|runtime| runtime.shutdown_timeout(timeout)));
        Ok(())
    }
}

impl Connector {
    /// Adds a request to the outbox. Returns whether no other future is pending, and whether enough
    /// is collected for a flush.
    fn collect(
        &self,
        template: &Bound<'_, FrameTemplate>,
        values: &Bound<'_, PyTuple>,
        body: &Bound<'_, PyBytes>,
        timeout: f64,
        waiting: Waiting,
        oneway: bool,
    ) -> PyResult<(bool, bool)> {
        self.check_process()?;
        let template = template.get();
        let values = template.values(values)?;
        let timeout = duration(timeout)?;
        let (number, alone) = self.futures.keep(waiting);
        let token = token_of(number, template.kind);
        let is_full = self.outbox.add(&template.target, |batch| {
            batch.add(token, timeout, oneway, |opaque, out| {
                let signed = self.credentials.as_ref();
                template.encode(opaque, &values, body.as_bytes(), oneway, signed, out)
            });
        });
        Ok((alone, is_full))
    }

    fn check_process(&self) -> PyResult<()> {
        if self.forks == forks::count() {
            return Ok(());
        }
        let text = "this client was started in another process; make a new one after a fork";
        Err(PyRuntimeError::new_err(text))
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        let runtime = self.runtime.lock().take();
        if self.check_process().is_ok() {
            self.pool.close();
            if let Some(runtime) = runtime {
                runtime.shutdown_background();
            }
        } else {
            std::mem::forget(runtime); // its threads are in the parent: joining would hang
        }
    }
}

fn waiting_of(template: &Bound<'_, FrameTemplate>, future: Py<PyAny>, is_pending: bool) -> Waiting {
    Waiting {
        future,
        is_pending,
        address: template.get().address.clone_ref(template.py()).into_any(),
    }
}

/// The thread of a client's sockets.
pub(super) fn io_runtime() -> std::io::Result<Runtime> {
    can_start(1)?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("mqclient-io")
        .enable_all()
        .build()
}

/// Reads the settings by the names of `PoolSettings`; times are in seconds.
pub(super) fn read_settings(given: &Bound<'_, PyDict>) -> PyResult<PoolSettings> {
    let mut settings = PoolSettings::default();
    for (name, value) in given.iter() {
        let name: String = name.extract()?;
        match name.as_str() {
            "connect_timeout" => settings.connect_timeout = duration(value.extract()?)?,
            "idle_timeout" => settings.idle_timeout = duration(value.extract()?)?,
            "max_frame_bytes" => settings.max_frame_bytes = value.extract()?,
            "in_flight_max" => settings.in_flight_max = value.extract()?,
            "outbound_limit_bytes" => settings.outbound_limit_bytes = value.extract()?,
            "tls" => settings.tls = tls::client(given)?,
            name if credentials::NAMES.contains(&name) => {}
            _ => return Err(PyValueError::new_err(format!("no setting named {name:?}"))),
        }
    }
    Ok(settings)
}
