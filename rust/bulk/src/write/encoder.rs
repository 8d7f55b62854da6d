//! From a row to the bytes of its message.
//!
//! An item of a batch (`MessageDecoder.encodeMessage`), integers big-endian:
//! ```text
//! | size 4 | magic 4 = 0 | CRC 4 = 0 | flag 4 | body size 4 | body | text size 2 | properties |
//! ```

use std::collections::HashSet;
use std::time::{SystemTime, UNIX_EPOCH};

use mq_format::message::{PROPERTIES_BYTES_MAX, RETRY_ROOM_BYTES};
use mq_format::properties::{DELAY, KEYS, NAME_END, PAIR_END, TAGS, UNIQ_KEY, WAIT};
use mq_format::remoting::push_decimal;

use super::ids::Ids;
use super::outgoing::Kind;
use super::plan::Plan;
use super::rows::{Keys, Rows};

/// Property that identifies a row, so that a reader can recognize repeats.
const ROW_ID: &str = "sparkRowId";

/// Encodes rows; an error describes the problem of a row.
pub(super) struct Encoder {
    reserved: HashSet<String>,
    row_id: String,
    ids: Ids,
    bytes_max: usize,
}

/// Milliseconds since the epoch.
pub(super) fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0))
}

impl Encoder {
    pub fn new(plan: &Plan) -> Self {
        Self {
            reserved: plan.reserved.clone(),
            row_id: plan.row_id.clone(),
            ids: Ids::new(plan.ids.clone()),
            bytes_max: plan.message_bytes_max,
        }
    }

    /// Appends a row as an item of a batch. number: the row's number in the task.
    pub fn push_item(
        &mut self,
        rows: &Rows<'_>,
        row: usize,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let (body, start) = (body(rows, row)?, out.len());
        let flag = rows.flag.map_or(0, |flags| flags.get(row));
        out.extend_from_slice(&[0; 12]);
        out.extend_from_slice(&flag.to_be_bytes());
        out.extend_from_slice(&(body.len() as u32).to_be_bytes());
        out.extend_from_slice(body);
        let text_at = out.len();
        out.extend_from_slice(&[0; 2]);
        self.push_properties(rows, row, number, out)?;
        let text_bytes = (out.len() - text_at - 2) as u16;
        out[text_at..text_at + 2].copy_from_slice(&text_bytes.to_be_bytes());
        let size = out.len() - start;
        self.check_size(size)?;
        out[start..start + 4].copy_from_slice(&(size as u32).to_be_bytes());
        Ok(())
    }

    /// Encodes a row that is sent alone: its body, and its header fields.
    pub fn single(
        &mut self,
        rows: &Rows<'_>,
        row: usize,
        number: u64,
    ) -> Result<(Vec<u8>, Kind), String> {
        let body = body(rows, row)?;
        let mut text = Vec::new();
        self.push_properties(rows, row, number, &mut text)?;
        self.check_size(body.len() + text.len())?;
        let kind = Kind::Single {
            flag: rows.flag.map_or(0, |flags| flags.get(row)),
            properties: String::from_utf8(text).map_err(|_| "its properties are not UTF-8")?,
        };
        Ok((body.to_vec(), kind))
    }

    fn check_size(&self, size: usize) -> Result<(), String> {
        if size <= self.bytes_max {
            return Ok(());
        }
        Err(format!(
            "the message has {size} bytes, and the limit is {}; raise maxMessageSize of the \
             brokers, and the option maxMessageSize",
            self.bytes_max
        ))
    }

    /// Appends the properties in the order of RocketMQ's clients for Python.
    fn push_properties(
        &mut self,
        rows: &Rows<'_>,
        row: usize,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let start = out.len();
        self.push_own(rows, row, out)?;
        push_keys(rows, row, out)?;
        let tag = rows.tags.and_then(|tags| tags.bytes(row));
        if let Some(tag) = tag.filter(|tag| !tag.is_empty()) {
            push(TAGS.as_bytes(), tag, out)?;
        }
        push_plain(WAIT, "true", out);
        let delay = rows.delay_level.map_or(0, |levels| levels.get(row));
        if delay < 0 {
            return Err(format!(
                "delay_level is {delay}; 0 is none, and 1 is the shortest"
            ));
        }
        if delay > 0 {
            push_plain(DELAY, &delay.to_string(), out);
        }
        out.extend_from_slice(ROW_ID.as_bytes());
        out.push(NAME_END);
        out.extend_from_slice(self.row_id.as_bytes());
        push_decimal(number as i64, out);
        out.push(PAIR_END);
        out.extend_from_slice(UNIQ_KEY.as_bytes());
        out.push(NAME_END);
        out.extend_from_slice(&self.ids.next(wall_ms()));
        let size = out.len() - start;
        let limit = PROPERTIES_BYTES_MAX - RETRY_ROOM_BYTES;
        if size > limit {
            return Err(format!(
                "its properties have {size} bytes, and the limit is {limit}"
            ));
        }
        Ok(())
    }

    /// Appends the column `properties`, without RocketMQ's own names, and without pairs that cannot
    /// be stored because they have no name or no value.
    fn push_own(&self, rows: &Rows<'_>, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let Some(maps) = rows.properties else {
            return Ok(());
        };
        for (name, value) in maps.pairs(row).filter(|(_, value)| !value.is_empty()) {
            let text = text(name, "a property's name")?;
            if text.is_empty() || text == ROW_ID || self.reserved.contains(text) {
                continue;
            }
            push(name, value, out)?;
        }
        Ok(())
    }
}

/// Returns a value as text, for fields that cannot be sent as bytes.
pub(super) fn text<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, String> {
    std::str::from_utf8(bytes).map_err(|_| format!("{what} is not UTF-8"))
}

fn body<'a>(rows: &Rows<'a>, row: usize) -> Result<&'a [u8], String> {
    match rows.body.bytes(row) {
        None => Err("its body is null".to_owned()),
        Some([]) => Err("its body is empty; brokers refuse that".to_owned()),
        Some(body) => Ok(body),
    }
}

/// Appends the keys, separated by spaces.
fn push_keys(rows: &Rows<'_>, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let start = out.len();
    out.extend_from_slice(KEYS.as_bytes());
    out.push(NAME_END);
    let first = out.len();
    let push_key = |key: &[u8], out: &mut Vec<u8>| {
        if out.len() > first {
            out.push(b' ');
        }
        out.extend_from_slice(key);
        check_separators(KEYS.as_bytes(), key)
    };
    match &rows.keys {
        None => {}
        Some(Keys::Text(keys)) => {
            let keys = text(keys.bytes(row).unwrap_or_default(), "its keys")?;
            for key in keys.split(' ').filter(|key| !key.is_empty()) {
                push_key(key.as_bytes(), out)?;
            }
        }
        Some(Keys::Lists(lists)) => {
            for key in lists.items(row) {
                let key = text(key.ok_or("one of its keys is null")?, "a key")?;
                if key.is_empty() || key.contains(' ') {
                    let why = "is empty or holds a space, which separates keys";
                    return Err(format!("key {key:?} {why}"));
                }
                push_key(key.as_bytes(), out)?;
            }
        }
    }
    match out.len() > first {
        true => out.push(PAIR_END),
        false => out.truncate(start),
    }
    Ok(())
}

/// Appends a pair and a separator.
fn push(name: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    check_separators(name, name)?;
    check_separators(name, value)?;
    out.extend_from_slice(name);
    out.push(NAME_END);
    out.extend_from_slice(value);
    out.push(PAIR_END);
    Ok(())
}

/// Appends a pair that is known to be valid.
fn push_plain(name: &str, value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.push(NAME_END);
    out.extend_from_slice(value.as_bytes());
    out.push(PAIR_END);
}

fn check_separators(name: &[u8], text: &[u8]) -> Result<(), String> {
    if memchr::memchr2(NAME_END, PAIR_END, text).is_none() {
        return Ok(());
    }
    let name = String::from_utf8_lossy(name);
    Err(format!(
        "property {name:?} holds 0x01 or 0x02, which separate properties"
    ))
}
