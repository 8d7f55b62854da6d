//! Python door of one handed-off request, and of connection events.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyMapping};

use super::mappings::seconds;
use mq_format::remoting::{ExtFields, Frame, Serialize};
use mq_server::{self as server, Job, JobHead};
use mq_store::MessageFilter;

/// Replies above this many bytes are written with the GIL released. For a smaller reply releasing
/// the GIL costs more than the write.
const LARGE_BODY_BYTES: usize = 64 << 10;

/// One frame handed off to Python; answered exactly once.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct Request {
    /// Taken by the call that answers.
    job: Mutex<Option<Job>>,
    head: JobHead,
    peer: Arc<server::Peer>,
    frame: Bytes,
    #[pyo3(get)]
    attempt: u8,
    fields: PyOnceLock<Py<PyDict>>,
}

impl Request {
    pub(super) fn new(job: Job) -> Self {
        Self {
            head: job.head,
            peer: Arc::clone(&job.peer),
            frame: job.frame(),
            attempt: job.attempt,
            fields: PyOnceLock::new(),
            job: Mutex::new(Some(job)),
        }
    }

    fn take(&self) -> PyResult<Job> {
        let answered = || PyRuntimeError::new_err("this request has been answered already");
        self.job.lock().take().ok_or_else(answered)
    }

    /// Decoding succeeded before, so it succeeds again.
    fn decoded(&self) -> PyResult<Frame<'_>> {
        Frame::decode(&self.frame).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }
}

#[pymethods]
impl Request {
    #[getter]
    fn code(&self) -> i32 {
        self.head.code
    }

    #[getter]
    fn opaque(&self) -> i32 {
        self.head.opaque
    }

    #[getter]
    fn flag(&self) -> i32 {
        self.head.flag
    }

    #[getter]
    fn version(&self) -> i32 {
        self.head.version
    }

    #[getter]
    fn language(&self) -> u8 {
        self.head.language.0
    }

    #[getter]
    fn serialize(&self) -> u8 {
        match self.head.serialize {
            Serialize::Json => 0,
            Serialize::RocketMq => 1,
        }
    }

    #[getter]
    fn remark(&self) -> PyResult<Option<String>> {
        Ok(self.decoded()?.remark.map(Into::into))
    }

    #[getter]
    fn connection(&self) -> u64 {
        self.peer.id
    }

    #[getter]
    fn remote(&self) -> String {
        self.peer.remote.to_string()
    }

    #[getter]
    fn fast_port(&self) -> bool {
        self.peer.fast_port
    }

    #[getter]
    fn oneway(&self) -> bool {
        self.head.flag & mq_format::remoting::FLAG_ONEWAY != 0
    }

    /// Header fields, decoded at the first access.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = self.fields.get_or_try_init(py, || {
            let dict = PyDict::new(py);
            for (name, value) in self.decoded()?.ext.iter() {
                dict.set_item(name, value)?;
            }
            PyResult::Ok(dict.unbind())
        })?;
        Ok(fields.bind(py).clone())
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, self.decoded()?.body))
    }

    /// Answers in the request's serialisation.
    #[pyo3(signature = (code, remark=None, fields=None, body=None))]
    fn respond(
        &self,
        py: Python<'_>,
        code: i32,
        remark: Option<&str>,
        fields: Option<&Bound<'_, PyMapping>>,
        body: Option<&[u8]>,
    ) -> PyResult<()> {
        let pairs: Option<Vec<(String, String)>> = match fields {
            None => None,
            Some(fields) => Some(fields.items()?.extract()?),
        };
        let body = body.unwrap_or_default();
        let job = self.take()?;
        let large = body.len() > LARGE_BODY_BYTES || job.has_turn();
        let answer = move || {
            let ext = match &pairs {
                None => ExtFields::absent(),
                Some(pairs) => pairs
                    .iter()
                    .map(|(k, v)| (k.as_str(), v.as_str()))
                    .collect(),
            };
            job.respond(code, remark, ext, body);
        };
        if large {
            py.detach(answer)
        } else {
            answer()
        }
        Ok(())
    }

    /// Answers code 1, as RocketMQ does for an exception.
    fn fail(&self, py: Python<'_>, remark: &str) -> PyResult<()> {
        let job = self.take()?;
        py.detach(|| job.fail(remark));
        Ok(())
    }

    /// Ends the request without a reply.
    fn no_reply(&self, py: Python<'_>) -> PyResult<()> {
        let job = self.take()?;
        py.detach(|| job.no_reply());
        Ok(())
    }

    /// Makes the request a long poll until a message arrives or the timeout ends.
    fn hold(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        offset: i64,
        timeout: f64,
        tag_codes: Option<Vec<i32>>,
    ) -> PyResult<()> {
        let filter = tag_codes.map_or(MessageFilter::All, |codes| {
            MessageFilter::Codes(codes.into())
        });
        let job = self.take()?;
        let topic = Arc::from(topic);
        py.detach(|| job.hold(topic, queue_id, offset, filter, seconds(timeout)));
        Ok(())
    }

    /// Routes the same frame once more.
    fn again(&self, py: Python<'_>) -> PyResult<()> {
        let job = self.take()?;
        py.detach(|| job.again());
        Ok(())
    }

    fn __repr__(&self) -> String {
        let (JobHead { code, opaque, .. }, remote) = (self.head, self.peer.remote);
        format!("<Request code={code} opaque={opaque} from {remote}>")
    }
}

/// The end of a connection.
#[pyclass(frozen, get_all, module = "mqcommon._core")]
pub struct Event {
    kind: &'static str,
    connection: u64,
    remote: String,
    detail: String,
}

impl From<server::Event> for Event {
    fn from(event: server::Event) -> Self {
        Self {
            kind: event.kind.as_str(),
            connection: event.connection,
            remote: event.remote.to_string(),
            detail: event.detail,
        }
    }
}

#[pymethods]
impl Event {
    fn __repr__(&self) -> String {
        format!(
            "<Event {} connection={} {}>",
            self.kind, self.connection, self.detail
        )
    }
}
