//! Parses the JSON of a state file; faults are reported with their byte position.

use serde_json::{Map, Value};

use mq_format::fastjson::{self, FastjsonError};

/// Most bytes of a state file after conversion to strict JSON.
const STRICT_BYTES_MAX: usize = 2 << 30;
/// Most characters of a name in a state file: RocketMQ's longest group, with the retry topic's
/// prefix.
const NAME_CHARS_MAX: usize = 255 + "%RETRY%".len();

/// The object in a state file with one of these tables; Err is the fault.
pub fn object(bytes: &[u8], tables: &[&str]) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(&strict(bytes)?) {
        Ok(Value::Object(object)) => match other_content(&object, tables) {
            Some(flaw) => Err(flaw),
            None => Ok(object),
        },
        Ok(_) => Err("not an object at byte 0".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Why an object is not the content of a file with one of these tables; None if it is. RocketMQ
/// writes empty tables too, so an object without one is not empty but lost.
pub fn other_content(object: &Map<String, Value>, tables: &[&str]) -> Option<String> {
    let is_table = |name: &&str| object.get(*name).is_some_and(Value::is_object);
    if tables.iter().any(is_table) {
        return None;
    }
    let wanted = tables.join(" or ");
    Some(match object.keys().next() {
        Some(first) => format!("has no table {wanted}, but {first:?}: the content of another file"),
        None => format!("has no table {wanted}: an empty object"),
    })
}

/// The fault of a file's JSON; None if it is valid.
pub fn flaw(bytes: &[u8]) -> Option<String> {
    strict(bytes).err()
}

fn strict(bytes: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("no UTF-8 text at byte {}", error.valid_up_to()))?;
    fastjson::to_strict_within(text, STRICT_BYTES_MAX).map_err(|error| match error {
        FastjsonError::Syntax { expected, position } => {
            format!("no JSON at byte {position}: {expected} expected")
        }
        FastjsonError::Depth(position) => format!("nested too deep at byte {position}"),
        FastjsonError::Size => error.to_string(),
    })
}

/// The entries of a table; empty if the file has no such table.
pub fn table<'a>(
    file: &'a Map<String, Value>,
    name: &str,
) -> Result<Vec<(&'a String, &'a Value)>, String> {
    match file.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(table)) => Ok(table.iter().collect()),
        Some(_) => Err(format!("{name} is not a table")),
    }
}

/// Why a topic or a group cannot have this name. RocketMQ accepts any group from a heartbeat, and
/// creates a topic and its directory for it.
pub fn bad_name(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("an empty name");
    }
    if name.chars().count() > NAME_CHARS_MAX {
        return Some("a name of over 262 characters");
    }
    if name.chars().any(char::is_control) {
        return Some("a name with a control character");
    }
    if name.contains('/') || matches!(name, "." | "..") {
        return Some("a name that cannot be a directory");
    }
    None
}
