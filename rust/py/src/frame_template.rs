//! Requests that differ in a few fields. The common fields are encoded once, and the replies are
//! decoded before Python sees them.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::frames::{check_frame, check_text, serialization};
use mq_client::credentials::Credentials;
use mq_format::remoting::{FLAG_ONEWAY, FieldValue, Frame, Head, Prepared, Serialize};
use mq_format::signature::SIGNATURE;

/// Codes of replies to a send that say "stored": `mqclient.producer.results.STATUS_OF_CODE`.
const STORED: [i32; 4] = [0, 10, 11, 12];
/// Codes of replies to a pull that hold the next offset: `mqclient.consumer.pull_answer`.
const PULLED: [i32; 4] = [0, 19, 20, 21];

/// How the reply to a request is read. The ordinal is part of the request's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyKind {
    /// As `mqcommon.wire.Frame`.
    Frame = 0,
    /// A `SentReply`, if the message was stored.
    Sent = 1,
    /// A tuple of numbers and the body, if the code is one of `PULLED`.
    Pulled = 2,
}

impl ReplyKind {
    /// Reads the kind from a token's lowest bits.
    pub fn of(token: u64) -> Self {
        match token & 3 {
            1 => Self::Sent,
            2 => Self::Pulled,
            _ => Self::Frame,
        }
    }
}

/// A request of one code to one address: its fixed fields, and the names of the open ones.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct FrameTemplate {
    /// For Python, which keeps it with every request.
    #[pyo3(get)]
    pub(super) address: Py<PyString>,
    /// The same.
    pub(super) target: String,
    code: i32,
    serialize: Serialize,
    pub(super) kind: ReplyKind,
    /// The header fields in wire order. None marks an open field, whose value each request gives.
    fields: Vec<(String, Option<String>)>,
    open: usize,
    /// Bytes of the fixed fields.
    fixed_text_bytes: usize,
    /// The header, if it is a binary one.
    prepared: Option<Prepared>,
}

#[pymethods]
impl FrameTemplate {
    #[new]
    fn new(
        py: Python<'_>,
        address: &str,
        code: i32,
        fields: Vec<(String, Option<String>)>,
        serialize: u8,
        reply: &str,
    ) -> PyResult<Self> {
        let kind = match reply {
            "frame" => ReplyKind::Frame,
            "sent" => ReplyKind::Sent,
            "pulled" => ReplyKind::Pulled,
            other => return Err(PyValueError::new_err(format!("no reply kind {other:?}"))),
        };
        let open = fields.iter().filter(|(_, value)| value.is_none()).count();
        let fixed = fields.iter().filter_map(|(_, value)| value.as_deref());
        let fixed_text_bytes = fixed.map(str::len).sum();
        let serialize = serialization(serialize, code).map_err(PyValueError::new_err)?;
        let pairs = || {
            fields
                .iter()
                .map(|(name, value)| (&**name, value.as_deref()))
        };
        let prepared = (serialize == Serialize::RocketMq)
            .then(|| Prepared::new(code, &pairs().collect::<Vec<_>>()));
        Ok(Self {
            address: PyString::new(py, address).unbind(),
            target: address.to_owned(),
            code,
            serialize,
            kind,
            open,
            fixed_text_bytes,
            prepared,
            fields,
        })
    }
}

impl FrameTemplate {
    /// Appends the frame of one request, signed if there are credentials; `values` are the open
    /// fields; None leaves a field out.
    pub(super) fn encode(
        &self,
        opaque: i32,
        values: &Values<'_>,
        body: &[u8],
        oneway: bool,
        credentials: Option<&Credentials>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        check_text(self.fixed_text_bytes + values.text_bytes())?;
        let flag = if oneway { FLAG_ONEWAY } else { 0 };
        let start = out.len();
        match (&self.prepared, credentials) {
            (Some(prepared), None) => prepared.encode(opaque, flag, values.fields(), body, out),
            _ => self.encode_all(opaque, flag, values, body, credentials, out),
        }
        check_frame(out.len() - start)
    }

    /// Does the same for signed and JSON requests, which need every field.
    fn encode_all(
        &self,
        opaque: i32,
        flag: i32,
        values: &Values<'_>,
        body: &[u8],
        credentials: Option<&Credentials>,
        out: &mut Vec<u8>,
    ) {
        let mut given = values.fields();
        let mut fields = Vec::with_capacity(self.fields.len());
        for (name, fixed) in &self.fields {
            let value = match fixed {
                Some(text) => Some(FieldValue::Text(text)),
                None => given.next().flatten(),
            };
            fields.extend(value.map(|value| (name.as_str(), value)));
        }
        let signature;
        if let Some(credentials) = credentials {
            signature = credentials.sign(&mut fields, body);
            fields.push((SIGNATURE, FieldValue::Text(&signature)));
        }
        let mut head = Head::request(self.code, opaque, self.serialize);
        head.flag = flag;
        head.encode(&fields, body, out);
    }

    /// Reads the open fields of one request.
    pub(super) fn values<'py>(&self, given: &Bound<'py, PyTuple>) -> PyResult<Values<'py>> {
        if given.len() != self.open {
            let text = format!("{} open fields, {} values", self.open, given.len());
            return Err(PyTypeError::new_err(text));
        }
        let values = given.iter_borrowed().map(|value| {
            if value.is_none() {
                return Ok(Value::Absent);
            }
            match value.cast::<PyString>() {
                Ok(text) => {
                    text.to_str()?; // refuses text that is not valid UTF-8
                    Ok(Value::Text(text.to_owned()))
                }
                Err(_) => Ok(Value::Number(value.extract()?)),
            }
        });
        Ok(Values(values.collect::<PyResult<_>>()?))
    }
}

/// The open fields of one request.
pub(super) struct Values<'py>(Vec<Value<'py>>);

enum Value<'py> {
    Text(Bound<'py, PyString>),
    Number(i64),
    Absent,
}

impl Values<'_> {
    fn fields(&self) -> impl Iterator<Item = Option<FieldValue<'_>>> {
        self.0.iter().map(|value| match value {
            Value::Text(text) => Some(FieldValue::Text(text.to_str().unwrap_or_default())),
            Value::Number(number) => Some(FieldValue::Number(*number)),
            Value::Absent => None,
        })
    }

    fn text_bytes(&self) -> usize {
        let texts = self.fields().flatten().map(|value| match value {
            FieldValue::Text(text) => text.len(),
            FieldValue::Number(_) => 0,
        });
        texts.sum()
    }
}

/// The reply to a send whose message was stored.
#[pyclass(frozen, get_all, module = "mqcommon._core")]
#[derive(Debug, Clone)]
pub struct SentReply {
    code: i32,
    offset_msg_id: String,
    queue_id: i32,
    queue_offset: i64,
    transaction_id: Option<String>,
    region_id: Option<String>,
    trace_on: bool,
}

impl SentReply {
    /// Whether the message is stored as durably as was asked.
    pub fn is_ok(&self) -> bool {
        self.code == 0
    }

    /// None for an error, and for a reply without one of the fields: Python then reads the whole
    /// frame.
    pub fn read(reply: &Frame<'_>) -> Option<Self> {
        if !STORED.contains(&reply.code) {
            return None;
        }
        let (mut offset_msg_id, mut queue_id, mut queue_offset) = (None, None, None);
        let (mut transaction_id, mut region_id, mut trace_on) = (None, None, true);
        for (name, value) in reply.ext.iter() {
            match name {
                "msgId" => offset_msg_id = Some(value.to_owned()),
                "queueId" => queue_id = value.parse().ok(),
                "queueOffset" => queue_offset = value.parse().ok(),
                "transactionId" => transaction_id = Some(value.to_owned()),
                "MSG_REGION" => region_id = (!value.is_empty()).then(|| value.to_owned()),
                "TRACE_ON" => trace_on = value != "false",
                _ => {}
            }
        }
        Some(Self {
            code: reply.code,
            offset_msg_id: offset_msg_id?,
            queue_id: queue_id?,
            queue_offset: queue_offset?,
            transaction_id,
            region_id,
            trace_on,
        })
    }
}

/// The reply to a pull.
pub(super) struct PulledReply {
    pub code: i32,
    pub next_offset: i64,
    pub min_offset: i64,
    pub max_offset: i64,
    pub suggested_broker_id: i64,
    pub body: Vec<u8>,
}

impl PulledReply {
    /// None for an error, and for a reply without one of the fields: Python then reads the whole
    /// frame.
    pub fn read(reply: &Frame<'_>) -> Option<Self> {
        if !PULLED.contains(&reply.code) {
            return None;
        }
        let number = |name| reply.ext.get(name)?.parse().ok();
        Some(Self {
            code: reply.code,
            next_offset: number("nextBeginOffset")?,
            min_offset: number("minOffset")?,
            max_offset: number("maxOffset")?,
            suggested_broker_id: number("suggestWhichBrokerId")?,
            body: reply.body.to_vec(),
        })
    }
}
