//! Writes the head of a frame: everything before the body.

use super::{FLAG_RESPONSE, FieldValue, Frame, Language, PREFIX_BYTES, Serialize, VERSION};
use super::{binary, json};

/// Fields of a request that its reply repeats. Small and without borrows, so that a delayed reply
/// can keep them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTo {
    /// The request's correlation number.
    pub opaque: i32,
    /// The request's serialization, which an ordinary reply uses too.
    pub serialize: Serialize,
}

/// The fixed fields of a header to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// Request or response code.
    pub code: i32,
    /// The language of the sender.
    pub language: Language,
    /// The version of the sender.
    pub version: i32,
    /// Correlation number.
    pub opaque: i32,
    /// `FLAG_RESPONSE`, `FLAG_ONEWAY`.
    pub flag: i32,
    /// Free text.
    pub remark: Option<&'a str>,
    /// Serialization of the header.
    pub serialize: Serialize,
}

impl<'a> Head<'a> {
    /// Creates the head of a request; `opaque` must be unique on its connection.
    pub fn request(code: i32, opaque: i32, serialize: Serialize) -> Self {
        Self {
            code,
            language: Language::PYTHON,
            version: VERSION,
            opaque,
            flag: 0,
            remark: None,
            serialize,
        }
    }

    /// Creates the head of a reply.
    pub fn reply(to: ReplyTo, code: i32, remark: Option<&'a str>) -> Self {
        let request = Self::request(code, to.opaque, to.serialize);
        Self {
            flag: FLAG_RESPONSE,
            remark,
            ..request
        }
    }

    /// Appends a whole frame to `out`. Without fields the map is omitted, as RocketMQ does.
    pub fn encode(&self, fields: &[(&str, FieldValue<'_>)], body: &[u8], out: &mut Vec<u8>) {
        self.encode_head(fields, body.len(), out);
        out.extend_from_slice(body);
    }

    /// Appends a whole frame with an empty map of fields, as in some of RocketMQ's replies.
    pub fn encode_empty_map(&self, body: &[u8], out: &mut Vec<u8>) {
        self.write(Some(std::iter::empty()), body.len(), out);
        out.extend_from_slice(body);
    }

    /// Appends everything except the body, whose `body_bytes` bytes the caller appends next.
    pub fn encode_head(
        &self,
        fields: &[(&str, FieldValue<'_>)],
        body_bytes: usize,
        out: &mut Vec<u8>,
    ) {
        let fields = (!fields.is_empty()).then(|| fields.iter().copied());
        self.write(fields, body_bytes, out);
    }

    /// Writes length field, header word and header.
    ///
    /// The caller keeps frames under `MAX_FRAME_BYTES`; a header over 2^24 bytes is a bug.
    pub(super) fn write<'f, I>(&self, fields: Option<I>, body_bytes: usize, out: &mut Vec<u8>)
    where
        I: Iterator<Item = (&'f str, FieldValue<'f>)>,
    {
        let start = out.len();
        out.extend_from_slice(&[0; PREFIX_BYTES]);
        match self.serialize {
            Serialize::Json => json::write(self, fields, out),
            Serialize::RocketMq => binary::write(self, fields, out),
        }
        let header_bytes = out.len() - start - PREFIX_BYTES;
        let prefix = prefix(self.serialize, header_bytes, body_bytes);
        out[start..start + PREFIX_BYTES].copy_from_slice(&prefix);
    }
}

/// Returns the length field and the header word.
pub(super) fn prefix(
    serialize: Serialize,
    header_bytes: usize,
    body_bytes: usize,
) -> [u8; PREFIX_BYTES] {
    assert!(header_bytes < 1 << 24, "header of {header_bytes} bytes");
    let length = u32::try_from(4 + header_bytes + body_bytes).unwrap_or(u32::MAX);
    let word = (serialize as u32) << 24 | header_bytes as u32;
    let mut prefix = [0; PREFIX_BYTES];
    prefix[..4].copy_from_slice(&length.to_be_bytes());
    prefix[4..].copy_from_slice(&word.to_be_bytes());
    prefix
}

impl Frame<'_> {
    /// Creates the head of an ordinary reply to this request.
    pub fn reply<'r>(&self, code: i32, remark: Option<&'r str>) -> Head<'r> {
        Head::reply(self.reply_to(), code, remark)
    }
}
