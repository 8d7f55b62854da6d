//! Remoting frames: RocketMQ's request and reply, in both of its header serialisations.
//!
//! ```text
//! | length 4 | header word 4: type 1, header length 3 | header | body |
//! ```
//! `length` counts what follows it. Type 0 is a JSON header (`json`), type 1 RocketMQ's binary
//! one (`binary`); the type holds for one frame, a connection may mix both. All integers are
//! big-endian. Everything here works on whole frames, length word included; `net::frame` cuts
//! them out of a byte stream.

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

/// Bytes of the length word and the header word.
pub const PREFIX_BYTES: usize = 8;
/// The largest frame RocketMQ takes, its length word included.
pub const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;
/// The protocol version we announce: RocketMQ 4.9.7.
pub const VERSION: i32 = 407;
/// `flag` bit of a reply.
pub const FLAG_RESPONSE: i32 = 1;
/// `flag` bit of a request that must not be answered.
pub const FLAG_ONEWAY: i32 = 2;

/// Why a frame cannot be read. The connection it came from cannot be trusted any more.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The length word is negative, too small to hold a header word, or over the limit.
    #[error("frame length {length} is not between 4 and {limit} bytes")]
    Length {
        /// The length word as received.
        length: i32,
        /// The largest length allowed.
        limit: usize,
    },
    /// The length word does not say how many bytes there are.
    #[error("frame of {actual} bytes says it has {expected}")]
    Mismatch {
        /// Bytes there are.
        actual: usize,
        /// Bytes the length word asks for.
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
    /// The header is longer than the receiver takes.
    #[error("header of {header} bytes; at most {limit} are taken (setting maxHeaderBytes)")]
    HeaderBytes {
        /// Header length as received.
        header: usize,
        /// The longest header taken.
        limit: usize,
    },
    /// The header has more fields than the receiver takes.
    #[error("header of more than {limit} fields (setting maxHeaderFields)")]
    HeaderFields {
        /// The largest number of fields taken.
        limit: usize,
    },
    /// The header is not UTF-8, and too long for that.
    #[error("header of {header} bytes that is not UTF-8; only one of up to {limit} may not be")]
    HeaderText {
        /// Header length as received.
        header: usize,
        /// The longest header that need not be UTF-8.
        limit: usize,
    },
    /// The serialisation is neither JSON nor ROCKETMQ.
    #[error("unknown header serialisation {0} (0 is JSON, 1 is ROCKETMQ)")]
    Serialize(u8),
    /// A binary header ends inside a field.
    #[error("bad ROCKETMQ header: {0}")]
    Binary(#[from] CursorError),
    /// A JSON header is not an object, or one of its fields has an impossible value.
    #[error("bad JSON header: {0}")]
    Json(String),
}

/// How a frame's header is written.
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
    /// What this project announces.
    pub const PYTHON: Self = Self(3);
    /// What an unknown name is read as.
    pub const OTHER: Self = Self(7);
    const NAMES: [&'static str; 14] = [
        "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO",
        "PHP", "OMS", "RUST", "NODE_JS",
    ];

    /// RocketMQ's name; `OTHER` for an ordinal it does not know.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(usize::from(self.0)).unwrap_or(&"OTHER")
    }

    /// The language of that name, `OTHER` if there is none.
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
    /// Correlation number, chosen by whoever sent the request.
    pub opaque: i32,
    /// `FLAG_RESPONSE`, `FLAG_ONEWAY`.
    pub flag: i32,
    /// Free text, mostly of an error reply.
    pub remark: Option<Cow<'a, str>>,
    /// The header's named fields.
    pub ext: ExtFields<'a>,
    /// The bytes after the header; empty means RocketMQ's null.
    pub body: &'a [u8],
    /// How the header was written.
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
    /// `FrameError` as [`Self::decode`], and when the header has more bytes or fields.
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

    /// Appends the frame to `out`, fields in their order.
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

    /// Whether no reply may be written.
    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }

    /// What a reply to this request has to repeat.
    pub fn reply_to(&self) -> ReplyTo {
        ReplyTo {
            opaque: self.opaque,
            serialize: self.serialize,
        }
    }

    /// A frame with nothing but defaults, for the header decoders to fill.
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

/// Cuts a whole frame into serialisation, header and body.
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

/// Header text. Java replaces what is not UTF-8, and so do we: a header is no place to lose a
/// message. Asking first is much faster than replacing nothing.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(replaced(bytes)),
    }
}

/// Text with what is not UTF-8 replaced, in memory taken at once: text that grows takes twice as
/// much.
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
