//! Records as JSON lines, byte for byte as Python's `json.dumps(row, ensure_ascii=False)` writes
//! the rows of `mqstore dump`.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::format::message::{RecordError, RecordView, body_crc, sys_flag};
use crate::format::properties;

#[cfg(test)]
mod tests;
mod text;

use text::{write_base64, write_hex, write_number, write_octet, write_string, write_time};

/// Room for one line without its body, bytes: a guess.
const LINE_BYTES: usize = 900;
/// Where the born host is in a record, bytes.
const BORN_HOST_AT: usize = 48;

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
    out: &mut Vec<u8>,
) -> Result<(), RecordError> {
    let mut rest = records;
    while !rest.is_empty() {
        let record = RecordView::parse(rest, crate::format::message::CheckCrc::No)?;
        let (bytes, behind) = rest.split_at(record.size());
        out.reserve(LINE_BYTES);
        write_fields(bytes, &record, out);
        if body != BodyText::None {
            write_body(&record, body, decompress, out);
        }
        out.extend_from_slice(b"}\n");
        rest = behind;
    }
    Ok(())
}

/// `, "name": `, in one piece.
macro_rules! name {
    ($name:literal, $out:expr) => {
        $out.extend_from_slice(concat!(", \"", $name, "\": ").as_bytes())
    };
}

/// A field that is a number.
macro_rules! number {
    ($name:literal, $value:expr, $out:expr) => {
        name!($name, $out);
        write_number($value, $out);
    };
}

/// The line up to the body, in the order of `message_row`.
fn write_fields(bytes: &[u8], record: &RecordView<'_>, out: &mut Vec<u8>) {
    let hosts = Hosts::of(bytes, record.sys_flag);
    let pairs = Pairs::of(record.properties);
    out.extend_from_slice(b"{\"topic\": ");
    write_string(record.topic, out);
    number!("queueId", record.queue_id.into(), out);
    number!("queueOffset", record.queue_offset, out);
    number!("commitLogOffset", record.physical_offset, out);
    number!("storeSize", bytes.len() as i64, out);
    name!("msgId", out);
    match pairs.last(properties::UNIQ_KEY) {
        Some(unique) => write_lossy(unique, out),
        None => hosts.write_offset_id(record.physical_offset, out),
    }
    name!("offsetMsgId", out);
    hosts.write_offset_id(record.physical_offset, out);
    name!("tags", out);
    write_optional(pairs.last(properties::TAGS), out);
    name!("keys", out);
    write_optional(pairs.last(properties::KEYS), out);
    number!("flag", record.flag.into(), out);
    number!("sysFlag", record.sys_flag.into(), out);
    number!("bornTimestamp", record.born_timestamp_ms, out);
    name!("bornHost", out);
    write_host(hosts.born, out);
    number!("storeTimestamp", record.store_timestamp_ms, out);
    name!("storeTime", out);
    write_time(record.store_timestamp_ms, out);
    name!("storeHost", out);
    write_host(hosts.store, out);
    number!("reconsumeTimes", record.reconsume_times.into(), out);
    let prepared = record.prepared_transaction_offset;
    number!("preparedTransactionOffset", prepared, out);
    // As a signed int, which it is on disk.
    number!("bodyCRC", record.body_crc.cast_signed().into(), out);
    name!("properties", out);
    pairs.write(out);
}

fn write_optional(value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        Some(value) => write_lossy(value, out),
        None => out.extend_from_slice(b"null"),
    }
}

/// Text whose bytes that are not UTF-8 become U+FFFD.
fn write_lossy(bytes: &[u8], out: &mut Vec<u8>) {
    write_string(&String::from_utf8_lossy(bytes), out);
}

/// Property pairs kept at hand; a record with more is read anew each time.
const PAIRS_MAX: usize = 24;

/// The properties of a record, split once.
struct Pairs<'a> {
    text: &'a [u8],
    pairs: [(&'a [u8], &'a [u8]); PAIRS_MAX],
    /// How many there are; None if they are too many.
    count: Option<usize>,
}

impl<'a> Pairs<'a> {
    fn of(text: &'a [u8]) -> Self {
        let mut found = Self {
            text,
            pairs: [(&[], &[]); PAIRS_MAX],
            count: None,
        };
        let mut count = 0;
        for pair in properties::iterate(text) {
            if count == PAIRS_MAX {
                return found;
            }
            found.pairs[count] = pair;
            count += 1;
        }
        found.count = Some(count);
        found
    }

    /// The value of the last pair with this name.
    fn last(&self, name: &str) -> Option<&'a [u8]> {
        let Some(count) = self.count else {
            return properties::get(self.text, name);
        };
        let mut pairs = self.pairs[..count].iter().rev();
        let found = pairs.find(|(known, _)| *known == name.as_bytes());
        found.map(|(_, value)| *value)
    }

    /// The pairs that count; of equal names the place of the first and the value of the last.
    fn write(&self, out: &mut Vec<u8>) {
        let pairs = &self.pairs[..self.count.unwrap_or(0)];
        let is_plain = |at: usize| {
            let (name, _) = pairs[at];
            name.is_ascii() && pairs[..at].iter().all(|(seen, _)| *seen != name)
        };
        if self.count.is_none() || !(0..pairs.len()).all(is_plain) {
            return write_properties_slowly(self.text, out);
        }
        out.push(b'{');
        for (at, (name, value)) in pairs.iter().enumerate() {
            if at > 0 {
                out.extend_from_slice(b", ");
            }
            write_lossy(name, out);
            out.extend_from_slice(b": ");
            write_lossy(value, out);
        }
        out.push(b'}');
    }
}

/// For names that come twice, or may once they are text.
fn write_properties_slowly(text: &[u8], out: &mut Vec<u8>) {
    let mut pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    let mut places = HashMap::new();
    for (name, value) in properties::iterate(text) {
        let name = String::from_utf8_lossy(name);
        let value = String::from_utf8_lossy(value);
        match places.get(&name) {
            Some(place) => {
                let pair: &mut (_, _) = &mut pairs[*place];
                pair.1 = value;
            }
            None => {
                places.insert(name.clone(), pairs.len());
                pairs.push((name, value));
            }
        }
    }
    out.push(b'{');
    for (at, (name, value)) in pairs.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        write_string(name, out);
        out.extend_from_slice(b": ");
        write_string(value, out);
    }
    out.push(b'}');
}

fn write_body(
    record: &RecordView<'_>,
    body: BodyText,
    decompress: &mut Decompress<'_>,
    out: &mut Vec<u8>,
) {
    name!("body", out);
    let unpacked = if record.sys_flag & sys_flag::COMPRESSED == 0 {
        Ok(Cow::Borrowed(record.body))
    } else {
        decompress(record.body, record.sys_flag).map(Cow::Owned)
    };
    let bytes = match unpacked {
        Ok(bytes) => bytes,
        Err(what) => {
            out.extend_from_slice(b"null");
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
    if body_crc(record.body) != record.body_crc {
        name!("bodyError", out);
        write_string("the body does not match bodyCRC: it is damaged", out);
    }
}

/// The two hosts as they are stored: address and port, which has four bytes.
struct Hosts<'a> {
    born: &'a [u8],
    store: &'a [u8],
}

impl<'a> Hosts<'a> {
    /// `bytes` is a record that was parsed, so both hosts are in it.
    fn of(bytes: &'a [u8], flags: i32) -> Self {
        let length = |bit| if flags & bit == 0 { 8 } else { 20 };
        let born_end = BORN_HOST_AT + length(sys_flag::BORN_HOST_V6);
        let store_at = born_end + 8;
        let store_end = store_at + length(sys_flag::STORE_HOST_V6);
        Self {
            born: bytes.get(BORN_HOST_AT..born_end).unwrap_or_default(),
            store: bytes.get(store_at..store_end).unwrap_or_default(),
        }
    }

    fn write_offset_id(&self, physical_offset: i64, out: &mut Vec<u8>) {
        out.push(b'"');
        text::write_hex_upper(self.store, out);
        text::write_hex_upper(&physical_offset.to_be_bytes(), out);
        out.push(b'"');
    }
}

/// `"ip:port"`, with brackets around an IPv6 address.
fn write_host(host: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let (address, port) = host.split_at(host.len().saturating_sub(4));
    if let Ok(octets) = <[u8; 16]>::try_from(address) {
        let address = std::net::Ipv6Addr::from(octets).to_string();
        out.push(b'[');
        out.extend_from_slice(address.as_bytes());
        out.push(b']');
    } else {
        for (at, octet) in address.iter().enumerate() {
            if at > 0 {
                out.push(b'.');
            }
            write_octet(*octet, out);
        }
    }
    out.push(b':');
    let port = port.try_into().map_or(0, i32::from_be_bytes);
    write_number(port.into(), out);
    out.push(b'"');
}
