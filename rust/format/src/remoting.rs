//! Remoting frames: RocketMQ's request and reply, in both header serializations.
//!
//! ```text
//! | length 4 | header word 4: type 1, header length 3 | header | body |
//! ```
//! `length` counts the bytes after it. Type 0 is a JSON header (`json`), type 1 RocketMQ's binary
//! one (`binary`). The type belongs to one frame; a connection may mix both. All integers are
//! big-endian. All functions here work on whole frames, including the length field; `net::frame`
//! cuts frames out of a byte stream.

mod binary;
mod decimal;
mod fields;
mod head;
mod json;
mod limits;
mod opaque;
mod prepared;
mod prepared_reply;

use std::borrow::Cow;

use thiserror::Error;

use crate::bytes::CursorError;

pub use binary::Texts;
pub use decimal::push_decimal;
pub use fields::{Entries, ExtFields, FieldValue};
pub use head::{Head, ReplyTo};
pub use limits::HeaderLimits;
pub use opaque::renumber;
pub use prepared::Prepared;
pub use prepared_reply::PreparedReply;

/// Bytes of the length field and the header word.
pub const PREFIX_BYTES: usize = 8;
/// The largest frame that RocketMQ accepts, including its length field.
pub const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;
/// The protocol version we announce: RocketMQ 4.9.7.
pub const VERSION: i32 = 407;
/// `flag` bit of a reply.
pub const FLAG_RESPONSE: i32 = 1;
/// `flag` bit of a request that must not be answered.
pub const FLAG_ONEWAY: i32 = 2;

/// Why a frame cannot be read. The connection should be closed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The length field is negative, too small for a header word, or over the limit.
    #[error("frame length {length} is not between 4 and {limit} bytes")]
    Length {
        /// The length field as received.
        length: i32,
        /// The largest length allowed.
        limit: usize,
    },
    /// The length field does not match the number of bytes.
    #[error("frame of {actual} bytes says it has {expected}")]
    Mismatch {
        /// Number of bytes.
        actual: usize,
        /// Number of bytes according to the length field.
        expected: i64,
    },
    /// The header would end after the frame.
    #[error("header of {header} bytes in a frame with {available} bytes after its header word")]
    HeaderLength {
        /// Header length as received.
        header: usize,
        /// Bytes between the header word and the end of the frame.
        available: usize,
    },
    /// The header is longer than the receiver allows.
    #[error("header of {header} bytes; at most {limit} are taken (setting maxHeaderBytes)")]
    HeaderBytes {
        /// Header length as received.
        header: usize,
        /// The longest allowed header.
        limit: usize,
    },
    /// The header has more fields than the receiver allows.
    #[error("header of more than {limit} fields (setting maxHeaderFields)")]
    HeaderFields {
        /// The largest allowed number of fields.
        limit: usize,
    },
    /// The header is not UTF-8 and too long to be converted.
    #[error("header of {header} bytes that is not UTF-8; only one of up to {limit} may not be")]
    HeaderText {
        /// Header length as received.
        header: usize,
        /// The longest header that may be other than UTF-8.
        limit: usize,
    },
    /// The serialization is neither JSON nor ROCKETMQ.
    #[error("unknown header serialisation {0} (0 is JSON, 1 is ROCKETMQ)")]
    Serialize(u8),
    /// A binary header ends inside a field.
    #[error("bad ROCKETMQ header: {0}")]
    Binary(#[from] CursorError),
    /// A JSON header is not an object, or one of its fields has an impossible value.
    #[error("bad JSON header: {0}")]
    Json(String),
}

/// Serialization of a frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Serialize {
    /// fastjson text.
    #[default]
    Json = 0,
    /// RocketMQ's binary layout.
    RocketMq = 1,
}

/// The sender's language: RocketMQ's ordinal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Language(pub u8);

impl Language {
    /// The language of this project's clients and servers.
    pub const PYTHON: Self = Self(3);
    /// The language of an unknown name.
    pub const OTHER: Self = Self(7);
    const NAMES: [&'static str; 14] = [
        "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO",
        "PHP", "OMS", "RUST", "NODE_JS",
    ];

    /// Returns RocketMQ's name; `OTHER` for an unknown ordinal.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(usize::from(self.0)).unwrap_or(&"OTHER")
    }

    /// Returns the language with that name; `OTHER` if there is none.
    pub fn from_name(name: &str) -> Self {
        let found = Self::NAMES.iter().position(|known| *known == name);
        found
            .and_then(|ordinal| u8::try_from(ordinal).ok())
            .map_or(Self::OTHER, Self)
    }
}

/// A decoded frame; borrows from the bytes it was decoded from.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame<'a> {
    /// Request code, or response code if `flag` has `FLAG_RESPONSE`.
    pub code: i32,
    /// The sender's language.
    pub language: Language,
    /// The sender's version ordinal.
    pub version: i32,
    /// Correlation number, chosen by the sender of the request.
    pub opaque: i32,
    /// `FLAG_RESPONSE`, `FLAG_ONEWAY`.
    pub flag: i32,
    /// Free text, mostly of an error reply.
    pub remark: Option<Cow<'a, str>>,
    /// The header's named fields.
    pub ext: ExtFields<'a>,
    /// The bytes after the header; empty means RocketMQ's null.
    pub body: &'a [u8],
    /// Serialization of the header.
    pub serialize: Serialize,
}

impl<'a> Frame<'a> {
    /// Decodes one whole frame, length word included.
    ///
    /// # Errors
    /// `FrameError` when a length does not fit or the header cannot be read.
    pub fn decode(frame: &'a [u8]) -> Result<Self, FrameError> {
        Self::decode_within(frame, HeaderLimits::NONE)
    }

    /// Decodes one whole frame whose header must keep within `limits`.
    ///
    /// # Errors
    /// `FrameError` like [`Self::decode`], and if the header exceeds `limits`.
    pub fn decode_within(frame: &'a [u8], limits: HeaderLimits) -> Result<Self, FrameError> {
        let (serialize, header, body) = split(frame)?;
        limits.check_bytes(header.len())?;
        let mut decoded = match serialize {
            Serialize::Json => json::decode(header, limits.fields)?,
            Serialize::RocketMq => binary::decode(header, limits.fields)?,
        };
        decoded.body = body;
        decoded.serialize = serialize;
        Ok(decoded)
    }

    /// Appends the frame to `out`; the fields keep their order.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let head = Head {
            code: self.code,
            language: self.language,
            version: self.version,
            opaque: self.opaque,
            flag: self.flag,
            remark: self.remark.as_deref(),
            serialize: self.serialize,
        };
        let fields = self.ext.written();
        let fields = fields.map(|pairs| pairs.map(|(name, value)| (name, FieldValue::Text(value))));
        head.write(fields, self.body.len(), out);
        out.extend_from_slice(self.body);
    }

    /// Whether this is a reply.
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// Whether the sender expects no reply.
    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }

    /// Returns the fields of this request that a reply repeats.
    pub fn reply_to(&self) -> ReplyTo {
        ReplyTo {
            opaque: self.opaque,
            serialize: self.serialize,
        }
    }

    /// Returns a frame with default values, which the header decoders fill in.
    fn blank(ext: ExtFields<'a>) -> Self {
        Self {
            code: 0,
            language: Language::OTHER,
            version: 0,
            opaque: 0,
            flag: 0,
            remark: None,
            ext,
            body: &[],
            serialize: Serialize::Json,
        }
    }
}

/// Splits a whole frame into serialization, header and body.
fn split(frame: &[u8]) -> Result<(Serialize, &[u8], &[u8]), FrameError> {
    let (Some(length), Some(word)) = (word_at(frame, 0), word_at(frame, 4)) else {
        return Err(FrameError::Mismatch {
            actual: frame.len(),
            expected: PREFIX_BYTES as i64,
        });
    };
    let expected = i64::from(length) + 4;
    if i64::try_from(frame.len()) != Ok(expected) {
        return Err(FrameError::Mismatch {
            actual: frame.len(),
            expected,
        });
    }
    let [kind, a, b, c] = word.to_be_bytes();
    let header = u32::from_be_bytes([0, a, b, c]) as usize;
    let rest = &frame[PREFIX_BYTES..];
    if header > rest.len() {
        return Err(FrameError::HeaderLength {
            header,
            available: rest.len(),
        });
    }
    let serialize = match kind {
        0 => Serialize::Json,
        1 => Serialize::RocketMq,
        other => return Err(FrameError::Serialize(other)),
    };
    let (header, body) = rest.split_at(header);
    Ok((serialize, header, body))
}

/// Returns the text of a header. Bytes that are not UTF-8 are replaced, as in Java, because a
/// message should not be lost over them. Checking first is much faster than a replacement without
/// changes.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(replaced(bytes)),
    }
}

/// Replaces bytes that are not UTF-8, in memory that is allocated once: growing text would need
/// twice as much.
fn replaced(bytes: &[u8]) -> String {
    let pieces = || {
        bytes.utf8_chunks().flat_map(|chunk| {
            let is_cut = !chunk.invalid().is_empty();
            [chunk.valid(), if is_cut { "\u{FFFD}" } else { "" }]
        })
    };
    let mut text = String::with_capacity(pieces().map(str::len).sum());
    text.extend(pieces());
    text
}

fn word_at(frame: &[u8], at: usize) -> Option<i32> {
    let bytes = frame.get(at..at + 4)?.try_into().ok()?;
    Some(i32::from_be_bytes(bytes))
}

#[cfg(test)]
#[path = "remoting/tests.rs"]
mod tests;
