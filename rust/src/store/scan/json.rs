//! Records as JSON lines, byte for byte as Python's `json.dumps(row, ensure_ascii=False)` writes
//! the rows of `mqstore dump`.

use std::borrow::Cow;

use crate::format::message::{RecordError, RecordView, body_crc, sys_flag};
use crate::format::properties;

#[cfg(test)]
mod tests;
mod text;

use text::{write_base64, write_hex, write_number, write_string, write_time};

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

/// The line up to the body, in the order of `message_row`.
fn write_fields(bytes: &[u8], record: &RecordView<'_>, out: &mut Vec<u8>) {
    let hosts = Hosts::of(bytes, record.sys_flag);
    out.extend_from_slice(b"{\"topic\": ");
    write_string(record.topic, out);
    write_field("queueId", record.queue_id.into(), out);
    write_field("queueOffset", record.queue_offset, out);
    write_field("commitLogOffset", record.physical_offset, out);
    write_field("storeSize", bytes.len() as i64, out);
    let text = record.properties;
    write_name("msgId", out);
    match properties::get_str(text, properties::UNIQ_KEY) {
        Some(unique) => write_string(&unique, out),
        None => hosts.write_offset_id(record.physical_offset, out),
    }
    write_name("offsetMsgId", out);
    hosts.write_offset_id(record.physical_offset, out);
    write_optional("tags", properties::get_str(text, properties::TAGS), out);
    write_optional("keys", properties::get_str(text, properties::KEYS), out);
    write_field("flag", record.flag.into(), out);
    write_field("sysFlag", record.sys_flag.into(), out);
    write_field("bornTimestamp", record.born_timestamp_ms, out);
    write_name("bornHost", out);
    write_host(hosts.born, out);
    write_field("storeTimestamp", record.store_timestamp_ms, out);
    write_name("storeTime", out);
    write_time(record.store_timestamp_ms, out);
    write_name("storeHost", out);
    write_host(hosts.store, out);
    write_field("reconsumeTimes", record.reconsume_times.into(), out);
    let prepared = record.prepared_transaction_offset;
    write_field("preparedTransactionOffset", prepared, out);
    // As a signed int, which it is on disk.
    write_field("bodyCRC", record.body_crc.cast_signed().into(), out);
    write_name("properties", out);
    write_properties(text, out);
}

fn write_name(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b", \"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\": ");
}

fn write_field(name: &str, value: i64, out: &mut Vec<u8>) {
    write_name(name, out);
    write_number(value, out);
}

fn write_optional(name: &str, value: Option<Cow<'_, str>>, out: &mut Vec<u8>) {
    write_name(name, out);
    match value {
        Some(value) => write_string(&value, out),
        None => out.extend_from_slice(b"null"),
    }
}

/// The pairs that count; of equal names the place of the first and the value of the last.
fn write_properties(text: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.push(b'{');
    for (at, (name, value)) in properties::iterate(text).enumerate() {
        let earlier = || properties::iterate(text).take(at);
        if earlier().any(|(seen, _)| seen == name) || (!name.is_ascii() && at > 0) {
            out.truncate(start);
            return write_properties_slowly(text, out);
        }
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        write_string(&String::from_utf8_lossy(name), out);
        out.extend_from_slice(b": ");
        write_string(&String::from_utf8_lossy(value), out);
    }
    out.push(b'}');
}

/// For names that come twice, or may once they are text.
fn write_properties_slowly(text: &[u8], out: &mut Vec<u8>) {
    let mut pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    for (name, value) in properties::iterate(text) {
        let name = String::from_utf8_lossy(name);
        let value = String::from_utf8_lossy(value);
        match pairs.iter_mut().find(|(seen, _)| *seen == name) {
            Some(pair) => pair.1 = value,
            None => pairs.push((name, value)),
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
    write_name("body", out);
    let unpacked = if record.sys_flag & sys_flag::COMPRESSED == 0 {
        Ok(Cow::Borrowed(record.body))
    } else {
        decompress(record.body, record.sys_flag).map(Cow::Owned)
    };
    let bytes = match unpacked {
        Ok(bytes) => bytes,
        Err(what) => {
            out.extend_from_slice(b"null");
            write_name("bodyError", out);
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
        write_name("bodyError", out);
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
            write_number((*octet).into(), out);
        }
    }
    out.push(b':');
    let port = port.try_into().map_or(0, i32::from_be_bytes);
    write_number(port.into(), out);
    out.push(b'"');
}
