//! Frames between Python and the client engine, without a copy of the encoded bytes in Python.

use std::time::Duration;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use mq_client::batch::Batch;
use mq_client::credentials::Credentials;
use mq_format::remoting::{FieldValue, Frame, Head, Language, MAX_FRAME_BYTES, Serialize};
use mq_format::signature::SIGNATURE;

/// Longest timeout; a longer one would overflow the clock.
const TIMEOUT_MAX_S: f64 = 1e9;
/// Largest text in a header: a JSON escape makes six bytes of one, and a header's length has 24
/// bits.
const HEADER_TEXT_MAX_BYTES: usize = 2 * 1024 * 1024;

/// A request as Python passes it.
pub(super) struct Submission<'py> {
    pub address: String,
    timeout: Duration,
    oneway: bool,
    code: i32,
    fields: Bound<'py, PyDict>,
    body: Bound<'py, PyBytes>,
    flag: i32,
    remark: Option<String>,
    language: Option<u8>,
    version: i32,
    serialize: u8,
}

/// The tuple that the stub of `Connector.submit` describes.
type Submitted<'py> = (
    String,
    Bound<'py, PyAny>,
    f64,
    bool,
    i32,
    Bound<'py, PyDict>,
    Bound<'py, PyBytes>,
    i32,
    Option<String>,
    Option<u8>,
    i32,
    u8,
);

impl<'py> Submission<'py> {
    /// Reads the tuple that the stub of `Connector.submit` describes.
    pub fn read(item: &Bound<'py, PyAny>) -> PyResult<Self> {
        let (
            address,
            _,
            timeout,
            oneway,
            code,
            fields,
            body,
            flag,
            remark,
            language,
            version,
            serialize,
        ): Submitted<'py> = item.extract()?;
        let timeout = duration(timeout)?;
        Ok(Self {
            address,
            timeout,
            oneway,
            code,
            fields,
            body,
            flag,
            remark,
            language,
            version,
            serialize,
        })
    }

    /// Encodes the request into a batch, signed if there are credentials.
    pub fn add_to(&self, batch: &mut Batch, token: u64, credentials: Option<&Credentials>) {
        batch.add(token, self.timeout, self.oneway, |opaque, out| {
            self.encode(opaque, credentials, out)
        });
    }

    fn encode(
        &self,
        opaque: i32,
        credentials: Option<&Credentials>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let texts: Vec<(Bound<'_, PyString>, Bound<'_, PyString>)> = self
            .fields
            .iter()
            .map(text_pair)
            .collect::<PyResult<_>>()
            .map_err(|e| e.to_string())?;
        let mut fields = Vec::with_capacity(texts.len());
        let mut text_bytes = self.remark.as_deref().map_or(0, str::len);
        for (name, value) in &texts {
            let name = name.to_str().map_err(|error| error.to_string())?;
            let value = value.to_str().map_err(|error| error.to_string())?;
            text_bytes += name.len() + value.len();
            fields.push((name, FieldValue::Text(value)));
        }
        check_text(text_bytes)?;
        let signature;
        if let Some(credentials) = credentials {
            signature = credentials.sign(&mut fields, self.body.as_bytes());
            fields.push((SIGNATURE, FieldValue::Text(&signature)));
        }
        let head = self.head(opaque)?;
        let (start, body) = (out.len(), self.body.as_bytes());
        head.encode(&fields, body, out);
        check_frame(out.len() - start)
    }

    fn head(&self, opaque: i32) -> Result<Head<'_>, String> {
        let serialize = serialization(self.serialize, self.code)?;
        Ok(Head {
            code: self.code,
            language: self.language.map_or(Language::OTHER, Language),
            version: self.version,
            opaque,
            flag: self.flag,
            remark: self.remark.as_deref(),
            serialize,
        })
    }
}

/// The serialisation of a request, by the number of RocketMQ's `SerializeType`.
pub(super) fn serialization(kind: u8, code: i32) -> Result<Serialize, String> {
    match kind {
        0 => Ok(Serialize::Json),
        1 if i16::try_from(code).is_ok() => Ok(Serialize::RocketMq),
        1 => Err(format!("code {code} does not fit a ROCKETMQ header")),
        other => Err(format!("unknown serialize type {other}")),
    }
}

/// Refuses text that may not fit a header.
pub(super) fn check_text(text_bytes: usize) -> Result<(), String> {
    if text_bytes > HEADER_TEXT_MAX_BYTES {
        return Err(format!("header with {text_bytes} bytes of text"));
    }
    Ok(())
}

/// Refuses a frame that is too large for any server.
pub(super) fn check_frame(frame_bytes: usize) -> Result<(), String> {
    if frame_bytes > MAX_FRAME_BYTES {
        return Err(format!(
            "frame of {frame_bytes} bytes, the limit is {MAX_FRAME_BYTES}"
        ));
    }
    Ok(())
}

fn text_pair<'py>(
    (name, value): (Bound<'py, PyAny>, Bound<'py, PyAny>),
) -> PyResult<(Bound<'py, PyString>, Bound<'py, PyString>)> {
    Ok((name.cast_into()?, value.cast_into()?))
}

/// A received frame as the arguments of `mqcommon.wire.Frame`, in its order.
pub(super) fn frame_to_python<'py>(py: Python<'py>, frame: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let frame = Frame::decode(frame).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let fields = PyDict::new(py);
    for (name, value) in frame.ext.iter() {
        fields.set_item(PyString::intern(py, name), value)?;
    }
    (
        frame.code,
        fields,
        PyBytes::new(py, frame.body),
        frame.opaque,
        frame.flag,
        frame.remark.as_deref(),
        frame.language.0,
        frame.version,
        frame.serialize as u8,
        frame.ext.is_present(),
    )
        .into_bound_py_any(py)
}

/// A timeout in seconds; ValueError for a number that is not a duration.
pub(super) fn duration(seconds: f64) -> PyResult<Duration> {
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!(
            "timeout {seconds} is not a time in seconds"
        )));
    }
    Ok(Duration::from_secs_f64(seconds.min(TIMEOUT_MAX_S)))
}
