//! Records as JSON lines, byte for byte as Python's `json.dumps(row, ensure_ascii=False)` writes
//! the rows of `mqstore dump`.

use std::borrow::Cow;

use crate::format::message::{CheckCrc, RecordError, body_crc};
use crate::format::properties;
use crate::store::scan::fields::Fields;
use crate::store::scan::hosts::{write_host, write_offset_id};
use crate::store::scan::pairs::{self, Nature, Pair};
use crate::store::scan::sink::{Kept, Sink};

#[cfg(test)]
mod tests;
mod text;

use text::{write_base64, write_hex, write_string, write_time};
pub(super) use text::{write_hex_upper, write_number, write_octet};

/// How bodies are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyText {
    /// Not at all; they are not decompressed either.
    None,
    /// As UTF-8 text; other bytes become U+FFFD.
    Text,
    /// Lower-case hex digits.
    Hex,
    /// Base64 with padding.
    Base64,
}

impl BodyText {
    /// Reads the word a user gives; None for another.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "none" => Some(Self::None),
            "text" => Some(Self::Text),
            "hex" => Some(Self::Hex),
            "base64" => Some(Self::Base64),
            _ => None,
        }
    }
}

/// Undoes the compression that a system flag names; what is wrong if that fails.
pub type Decompress<'a> = dyn FnMut(&[u8], i32) -> Result<Vec<u8>, String> + 'a;

/// Appends one line per record of `records`, which are whole and one after the other; their
/// bodies' checksums only mark a line.
pub fn json_lines(
    records: &[u8],
    body: BodyText,
    decompress: &mut Decompress<'_>,
) -> Result<Sink, RecordError> {
    let mut lines = Lines::new(body);
    lines.out = Sink::with_room(2 * records.len());
    let mut rest = records;
    while !rest.is_empty() {
        let record = Fields::parse(rest, CheckCrc::No)?;
        lines.add(&record, decompress);
        rest = &rest[record.bytes.len()..];
    }
    Ok(lines.out)
}

/// Text that the compiler knows.
macro_rules! put {
    ($text:expr, $out:expr) => {{
        const TEXT: &[u8] = $text.as_bytes();
        if let Some(text) = TEXT.first_chunk::<{ TEXT.len() }>() {
            $out.put_all(text);
        }
    }};
}

/// `, "name": `, in one piece.
macro_rules! name {
    ($name:literal, $out:expr) => {
        put!(concat!(", \"", $name, "\": "), $out)
    };
}

/// A field that is a number.
macro_rules! number {
    ($name:literal, $value:expr, $out:expr) => {
        name!($name, $out);
        write_number($value, $out);
    };
}

/// JSON lines being written, and the text that most records share.
#[derive(Debug)]
pub(super) struct Lines {
    out: Sink,
    body: BodyText,
    pairs: Vec<Pair>,
    topic: Kept,
    born_host: Kept,
    store_host: Kept,
    store_time: Kept,
}

impl Lines {
    pub(super) fn new(body: BodyText) -> Self {
        Self {
            out: Sink::default(),
            body,
            pairs: Vec::new(),
            topic: Kept::default(),
            born_host: Kept::default(),
            store_host: Kept::default(),
            store_time: Kept::default(),
        }
    }

    /// Whether a record's line cannot be written without decompressing.
    pub(super) fn must_decompress(&self, record: &Fields<'_>) -> bool {
        self.body != BodyText::None && record.is_compressed()
    }

    /// What was written so far.
    pub(super) fn take(&mut self) -> Sink {
        self.out.take()
    }

    /// Appends the line of a record.
    pub(super) fn add(&mut self, record: &Fields<'_>, decompress: &mut Decompress<'_>) {
        self.write_fields(record);
        if self.body != BodyText::None {
            write_body(record, self.body, decompress, &mut self.out);
        }
        self.out.put_all(b"}\n");
    }

    /// The line up to the body, in the order of `message_row`.
    fn write_fields(&mut self, record: &Fields<'_>) {
        let text = record.properties;
        self.pairs.clear();
        let nature = pairs::split(text, &mut self.pairs);
        let pairs = &self.pairs[..];
        let is_plain = nature.is_plain;
        let out = &mut self.out;
        put!("{\"topic\": ", out);
        self.topic.put(record.topic.as_bytes(), out, |out| {
            write_string(record.topic, out);
        });
        number!("queueId", record.queue_id().into(), out);
        number!("queueOffset", record.queue_offset(), out);
        number!("commitLogOffset", record.physical_offset(), out);
        number!("storeSize", record.bytes.len() as i64, out);
        name!("msgId", out);
        match pairs::last(text, pairs, properties::UNIQ_KEY) {
            Some(unique) => write_value(unique, is_plain, out),
            None => quoted(out, |out| write_offset_id(record, out)),
        }
        name!("offsetMsgId", out);
        quoted(out, |out| write_offset_id(record, out));
        name!("tags", out);
        write_optional(pairs::last(text, pairs, properties::TAGS), is_plain, out);
        name!("keys", out);
        write_optional(pairs::last(text, pairs, properties::KEYS), is_plain, out);
        number!("flag", record.flag().into(), out);
        number!("sysFlag", record.sys_flag().into(), out);
        number!("bornTimestamp", record.born_timestamp_ms(), out);
        name!("bornHost", out);
        let write = |out: &mut Sink| quoted(out, |out| write_host(record.born_host(), out));
        self.born_host.put(record.born_host(), out, write);
        name!("storeTimestamp", out);
        let store_ms = record.store_timestamp_ms();
        self.store_time.put(&store_ms.to_ne_bytes(), out, |out| {
            write_number(store_ms, out);
            name!("storeTime", out);
            write_time(store_ms, out);
        });
        name!("storeHost", out);
        let write = |out: &mut Sink| quoted(out, |out| write_host(record.store_host(), out));
        self.store_host.put(record.store_host(), out, write);
        number!("reconsumeTimes", record.reconsume_times().into(), out);
        let prepared = record.prepared_transaction_offset();
        number!("preparedTransactionOffset", prepared, out);
        // As a signed int, which it is on disk.
        number!("bodyCRC", record.stored_crc().cast_signed().into(), out);
        name!("properties", out);
        write_properties(text, pairs, nature, out);
    }
}

fn write_optional(value: Option<&[u8]>, is_plain: bool, out: &mut Sink) {
    match value {
        Some(value) => write_value(value, is_plain, out),
        None => out.put_all(b"null"),
    }
}

/// A part of the properties; plain ones need no look at their bytes.
#[inline]
fn write_value(bytes: &[u8], is_plain: bool, out: &mut Sink) {
    if !is_plain {
        return write_lossy(bytes, out);
    }
    quoted(out, |out| out.put(bytes));
}

/// What `write` appends, in quotes.
#[inline]
fn quoted(out: &mut Sink, write: impl FnOnce(&mut Sink)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

/// Text whose bytes that are not UTF-8 become U+FFFD.
fn write_lossy(bytes: &[u8], out: &mut Sink) {
    write_string(&String::from_utf8_lossy(bytes), out);
}

/// The pairs that count; of equal names the place of the first and the value of the last.
fn write_properties(text: &[u8], pairs: &[Pair], nature: Nature, out: &mut Sink) {
    if !nature.is_ascii || pairs::has_twin(text, pairs) {
        return write_properties_slowly(text, out);
    }
    out.push(b'{');
    for (at, pair) in pairs.iter().enumerate() {
        if at > 0 {
            out.put_all(b", ");
        }
        write_value(pair.name(text), nature.is_plain, out);
        out.put_all(b": ");
        write_value(pair.value(text), nature.is_plain, out);
    }
    out.push(b'}');
}

/// For names that come twice, or may once they are text.
fn write_properties_slowly(text: &[u8], out: &mut Sink) {
    out.push(b'{');
    for (at, (name, value)) in pairs::distinct(text).iter().enumerate() {
        if at > 0 {
            out.put_all(b", ");
        }
        write_string(name, out);
        out.put_all(b": ");
        write_string(value, out);
    }
    out.push(b'}');
}

fn write_body(
    record: &Fields<'_>,
    body: BodyText,
    decompress: &mut Decompress<'_>,
    out: &mut Sink,
) {
    name!("body", out);
    let unpacked = if !record.is_compressed() {
        Ok(Cow::Borrowed(record.body))
    } else {
        decompress(record.body, record.sys_flag()).map(Cow::Owned)
    };
    let bytes = match unpacked {
        Ok(bytes) => bytes,
        Err(what) => {
            out.put_all(b"null");
            name!("bodyError", out);
            return write_string(&what, out);
        }
    };
    match body {
        BodyText::None => {}
        BodyText::Text => write_string(&String::from_utf8_lossy(&bytes), out),
        BodyText::Hex => write_hex(&bytes, out),
        BodyText::Base64 => write_base64(&bytes, out),
    }
    if body_crc(record.body) != record.stored_crc() {
        name!("bodyError", out);
        write_string("the body does not match bodyCRC: it is damaged", out);
    }
}
