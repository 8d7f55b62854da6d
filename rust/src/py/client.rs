//! Python door of `client`: a pool whose events are drained by Python after a wake-up byte.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyTuple};
use tokio::runtime::Runtime;

use super::credentials;
use super::frames::{Submission, duration};
use super::inbox::{Inbox, SEATED};
use super::template::RequestTemplate;
use super::tls;

use crate::client::batch::Batch;
use crate::client::credentials::Credentials;
use crate::client::events::{Events, Failure};
use crate::client::pool::{Pool, PoolSettings};

/// A wait looks for signals this often.
const POLL: Duration = Duration::from_millis(50);

/// Connections to servers; requests go in with a token, outcomes come out of `drain`.
#[pyclass(frozen, module = "mqstore._core")]
pub struct Connector {
    pool: Pool,
    inbox: Arc<Inbox>,
    /// Requests of `request` until `flush`, by address.
    outbox: Mutex<Vec<(String, Batch)>>,
    /// Counts requests, for their tokens.
    requests: AtomicU64,
    /// Signs every request, if given.
    credentials: Option<Credentials>,
    /// None once closed.
    runtime: Mutex<Option<Runtime>>,
    /// Threads do not survive a fork: only this process may use them.
    process: u32,
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
            outbox: Mutex::default(),
            requests: AtomicU64::new(1),
            credentials,
            runtime: Mutex::new(Some(runtime)),
            process,
        })
    }

    fn request(
        &self,
        template: &Bound<'_, RequestTemplate>,
        values: &Bound<'_, PyTuple>,
        body: &Bound<'_, PyBytes>,
        timeout: f64,
        oneway: bool,
    ) -> PyResult<(u64, usize)> {
        self.check_process()?;
        let template = template.get();
        let values = template.values(values)?;
        let timeout = duration(timeout)?;
        let token = self.token(template);
        let mut outbox = self.outbox.lock();
        let found = outbox
            .iter()
            .position(|(address, _)| *address == template.address);
        let place = found.unwrap_or_else(|| {
            outbox.push((template.address.clone(), self.pool.batch()));
            outbox.len() - 1
        });
        let batch = &mut outbox[place].1;
        batch.add(token, timeout, oneway, |opaque, out| {
            let signed = self.credentials.as_ref();
            template.encode(opaque, &values, body.as_bytes(), oneway, signed, out)
        });
        Ok((token, batch.size_bytes()))
    }

    fn flush(&self) -> PyResult<()> {
        self.check_process()?;
        let outbox = std::mem::take(&mut *self.outbox.lock());
        for (address, batch) in outbox {
            self.pool.submit(&address, batch);
        }
        self.inbox.settled();
        Ok(())
    }

    fn call<'py>(
        &self,
        template: &Bound<'py, RequestTemplate>,
        values: &Bound<'py, PyTuple>,
        body: &Bound<'py, PyBytes>,
        timeout: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.check_process()?;
        let (py, template) = (template.py(), template.get());
        let values = template.values(values)?;
        let timeout = duration(timeout)?;
        let token = self.token(template) | SEATED;
        let seat = self.inbox.seat(token);
        let mut batch = self.pool.batch();
        batch.add(token, timeout, false, |opaque, out| {
            let signed = self.credentials.as_ref();
            template.encode(opaque, &values, body.as_bytes(), false, signed, out)
        });
        py.detach(|| self.pool.submit(&template.address, batch));
        // Signals reach the main thread only: other threads wait in one piece.
        let is_main = rustix::thread::gettid() == rustix::process::getpid();
        let slice = if is_main { POLL } else { Duration::MAX };
        loop {
            if let Some(outcome) = py.detach(|| seat.wait(slice)) {
                return outcome.into_python(py);
            }
            py.check_signals()
                .inspect_err(|_| self.inbox.leave(token))?;
        }
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
                .for_each(|submission| submission.add_to(&mut batch, self.credentials.as_ref()));
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
                .into_iter()
                .map(|event| event.into_python(py))
                .collect::<PyResult<Vec<_>>>()?,
        )
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
    /// A token of its own, which says how the reply is read.
    fn token(&self, template: &RequestTemplate) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed) << 3 | template.kind as u64
    }

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
            "tls" => settings.tls = tls::client(given)?,
            name if credentials::NAMES.contains(&name) => {}
            _ => return Err(PyValueError::new_err(format!("no setting named {name:?}"))),
        }
    }
    Ok(settings)
}
