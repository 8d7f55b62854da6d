//! Records as JSON lines, byte for byte as Python's `json.dumps(row, ensure_ascii=False)` writes
//! the rows of `mqstore dump`.

use std::borrow::Cow;

use crate::fields::Fields;
use crate::hosts::{write_host, write_offset_id};
use crate::pairs::{self, Nature, Pair};
use crate::shapes::{Shapes, Span};
use crate::sink::{Kept, Sink};
use crate::text::{write_base64, write_hex, write_number, write_string, write_time};
use mq_format::message::{CheckCrc, RecordError};
use mq_format::properties;

#[cfg(test)]
mod tests;

/// Encoding of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyText {
    /// No body; it is not decompressed either.
    None,
    /// UTF-8 text; invalid bytes become U+FFFD.
    Text,
    /// Lower-case hex digits.
    Hex,
    /// Base64 with padding.
    Base64,
}

impl BodyText {
    /// Parses the user's word; None if it is unknown.
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

/// Decompresses a body with the codec in the system flag; the error says why that failed.
pub type Decompress<'a> = dyn FnMut(&[u8], i32) -> Result<Vec<u8>, String> + 'a;

/// Appends one line per record. `records` holds whole records, one after the other. A body that
/// does not match its checksum marks its line and is no error.
pub fn json_lines(
    records: &[u8],
    body: BodyText,
    decompress: &mut Decompress<'_>,
) -> Result<Sink, RecordError> {
    let mut lines = Lines::new(body);
    lines.out = Sink::with_room(3 * records.len());
    let mut rest = records;
    while !rest.is_empty() {
        let record = Fields::parse(rest, CheckCrc::No)?;
        lines.add(&record, decompress);
        rest = &rest[record.bytes.len()..];
    }
    Ok(lines.out)
}

/// Appends text of a length known at compile time.
macro_rules! put {
    ($text:expr, $out:expr) => {{
        const TEXT: &[u8] = $text.as_bytes();
        if let Some(text) = TEXT.first_chunk::<{ TEXT.len() }>() {
            $out.put_all(text);
        }
    }};
}

/// Appends `, "name": ` as one piece.
macro_rules! name {
    ($name:literal, $out:expr) => {
        put!(concat!(", \"", $name, "\": "), $out)
    };
}

/// Appends a field with a number.
macro_rules! number {
    ($name:literal, $value:expr, $out:expr) => {
        name!($name, $out);
        write_number($value, $out);
    };
}

/// JSON lines, and a cache of the text that most records share.
#[derive(Debug)]
pub struct Lines {
    out: Sink,
    body: BodyText,
    shapes: Shapes,
    places: Places,
    topic: Kept,
    born: Kept,
    stored: Kept,
}

/// Positions of the properties that have a field of their own, cached for one shape.
#[derive(Debug, Default)]
struct Places {
    span: Option<Span>,
    has_twin: bool,
    unique: Option<Pair>,
    tags: Option<Pair>,
    keys: Option<Pair>,
}

impl Places {
    fn of(span: Span, text: &[u8], pairs: &[Pair]) -> Self {
        let last = |name| pairs::last(text, pairs, name);
        Self {
            span: Some(span),
            has_twin: pairs::has_twin(text, pairs),
            unique: last(properties::UNIQ_KEY),
            tags: last(properties::TAGS),
            keys: last(properties::KEYS),
        }
    }
}

impl Lines {
    /// No lines yet; bodies will be written as `body` says.
    pub fn new(body: BodyText) -> Self {
        Self {
            out: Sink::default(),
            body,
            shapes: Shapes::default(),
            places: Places::default(),
            topic: Kept::default(),
            born: Kept::default(),
            stored: Kept::default(),
        }
    }

    /// Whether the line of a record needs the decompressed body.
    pub fn must_decompress(&self, record: &Fields<'_>) -> bool {
        self.body != BodyText::None && record.is_compressed()
    }

    /// Returns the lines written so far.
    pub fn take(&mut self) -> Sink {
        self.out.take()
    }

    /// Appends the line of a record.
    pub fn add(&mut self, record: &Fields<'_>, decompress: &mut Decompress<'_>) {
        let nature = self.split(record.properties);
        self.write_place(record);
        self.write_ids(record, nature);
        self.write_times(record);
        let out = &mut self.out;
        if let Some(span) = self
            .places
            .span
            .filter(|_| nature.is_ascii && !self.places.has_twin)
        {
            let pairs = self.shapes.pairs(span);
            write_pairs(record.properties, pairs, nature.is_plain, out);
        } else {
            write_properties_slowly(record.properties, out);
        }
        if self.body != BodyText::None {
            write_body(record, self.body, decompress, out);
        }
        out.put_all(b"}\n");
    }

    /// Splits the properties, and looks up the named ones if the shape changed.
    #[inline]
    fn split(&mut self, text: &[u8]) -> Nature {
        if self.shapes.tidy() {
            self.places = Places::default();
        }
        let (span, nature) = self.shapes.split(text);
        if self.places.span != Some(span) {
            self.places = Places::of(span, text, self.shapes.pairs(span));
        }
        nature
    }

    /// Fields are in the order of Python's `message_row`.
    #[inline]
    fn write_place(&mut self, record: &Fields<'_>) {
        let out = &mut self.out;
        self.topic.put(record.topic.as_bytes(), out, |out| {
            put!("{\"topic\": ", out);
            write_string(record.topic, out);
            name!("queueId", out);
        });
        write_number(record.queue_id().into(), out);
        number!("queueOffset", record.queue_offset(), out);
        number!("commitLogOffset", record.physical_offset(), out);
        number!("storeSize", record.bytes.len() as i64, out);
    }

    #[inline]
    fn write_ids(&mut self, record: &Fields<'_>, nature: Nature) {
        let (out, places, is_plain) = (&mut self.out, &self.places, nature.is_plain);
        let text = record.properties;
        name!("msgId", out);
        match places.unique {
            Some(unique) => write_value(unique.value(text), is_plain, out),
            None => quoted(out, |out| write_offset_id(record, out)),
        }
        name!("offsetMsgId", out);
        quoted(out, |out| write_offset_id(record, out));
        name!("tags", out);
        write_optional(places.tags, text, is_plain, out);
        name!("keys", out);
        write_optional(places.keys, text, is_plain, out);
    }

    /// Records sent or stored at the same time mostly share these fields, so their text is cached.
    #[inline]
    fn write_times(&mut self, record: &Fields<'_>) {
        let out = &mut self.out;
        number!("flag", record.flag().into(), out);
        self.born.put(record.born_part(), out, |out| {
            number!("sysFlag", record.sys_flag().into(), out);
            number!("bornTimestamp", record.born_timestamp_ms(), out);
            name!("bornHost", out);
            quoted(out, |out| write_host(record.born_host(), out));
        });
        self.stored.put(record.stored_part(), out, |out| {
            let store_ms = record.store_timestamp_ms();
            number!("storeTimestamp", store_ms, out);
            name!("storeTime", out);
            write_time(store_ms, out);
            name!("storeHost", out);
            quoted(out, |out| write_host(record.store_host(), out));
            number!("reconsumeTimes", record.reconsume_times().into(), out);
            let prepared = record.prepared_transaction_offset();
            number!("preparedTransactionOffset", prepared, out);
            name!("bodyCRC", out);
        });
        // A signed int, as on disk.
        write_number(record.stored_crc().cast_signed().into(), out);
        name!("properties", out);
    }
}

fn write_optional(pair: Option<Pair>, text: &[u8], is_plain: bool, out: &mut Sink) {
    match pair {
        Some(pair) => write_value(pair.value(text), is_plain, out),
        None => out.put_all(b"null"),
    }
}

/// Writes a name or a value. Plain bytes need no escaping.
#[inline]
fn write_value(bytes: &[u8], is_plain: bool, out: &mut Sink) {
    if !is_plain {
        return write_lossy(bytes, out);
    }
    quoted(out, |out| out.put(bytes));
}

/// Writes quotes around the output of `write`.
#[inline]
fn quoted(out: &mut Sink, write: impl FnOnce(&mut Sink)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

/// Writes text; bytes that are not UTF-8 become U+FFFD.
fn write_lossy(bytes: &[u8], out: &mut Sink) {
    write_string(&String::from_utf8_lossy(bytes), out);
}

/// Writes the pairs; their names are ASCII and distinct.
#[inline]
fn write_pairs(text: &[u8], pairs: &[Pair], is_plain: bool, out: &mut Sink) {
    out.push(b'{');
    for (at, pair) in pairs.iter().enumerate() {
        if at > 0 {
            out.put_all(b", ");
        }
        write_value(pair.name(text), is_plain, out);
        out.put_all(b": ");
        write_value(pair.value(text), is_plain, out);
    }
    out.push(b'}');
}

/// Writes properties whose names occur twice, or may be equal after decoding. As in a Python dict,
/// a name keeps its first position and takes its last value.
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
    if !record.is_sound() {
        name!("bodyError", out);
        write_string("the body does not match bodyCRC: it is damaged", out);
    }
}
