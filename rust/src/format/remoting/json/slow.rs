//! The forgiving reader of JSON headers: unknown keys, quoted numbers, odd field values.

use serde_json::{Map, Value};

use super::super::limits::check_fields;
use super::super::{ExtFields, Frame, FrameError, Language};
use crate::format::fastjson;

/// Reads any header fastjson would, into owned texts.
pub(super) fn decode<'a>(text: &str, fields_max: usize) -> Result<Frame<'a>, FrameError> {
    let bad = |cause: String| FrameError::Json(cause);
    let strict = fastjson::to_strict(text).map_err(|error| bad(error.to_string()))?;
    let value = serde_json::from_str(&strict).map_err(|error| bad(error.to_string()))?;
    let Value::Object(members) = value else {
        return Err(bad("not an object".to_owned()));
    };
    let mut frame = Frame::blank(ExtFields::absent());
    frame.code = integer(&members, "code")?;
    frame.flag = integer(&members, "flag")?;
    frame.opaque = integer(&members, "opaque")?;
    frame.version = integer(&members, "version")?;
    frame.language = match members.get("language") {
        Some(Value::Number(ordinal)) => {
            let known = ordinal
                .as_u64()
                .and_then(|ordinal| u8::try_from(ordinal).ok());
            known.map_or(Language::OTHER, Language)
        }
        Some(Value::String(name)) => Language::from_name(name),
        _ => Language::OTHER,
    };
    frame.remark = members
        .get("remark")
        .and_then(as_java_string)
        .map(Into::into);
    match members.get("extFields") {
        None | Some(Value::Null) => {}
        Some(Value::Object(fields)) => {
            check_fields(fields.len(), fields_max)?;
            frame.ext = ext_fields(fields);
        }
        Some(_) => return Err(bad("extFields is not an object".to_owned())),
    }
    Ok(frame)
}

/// A number, or a string holding one; missing and null count as 0, as in Java.
fn integer(members: &Map<String, Value>, name: &str) -> Result<i32, FrameError> {
    let parsed = match members.get(name) {
        None | Some(Value::Null) => Some(0),
        Some(Value::Number(number)) => number.as_i64().and_then(|n| i32::try_from(n).ok()),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(_) => None,
    };
    parsed.ok_or_else(|| FrameError::Json(format!("{name} is not a 32-bit number")))
}

fn ext_fields<'a>(fields: &Map<String, Value>) -> ExtFields<'a> {
    let mut ext = ExtFields::empty(false);
    for (name, value) in fields {
        if let Some(value) = as_java_string(value) {
            ext.push(name.clone().into(), value.into());
        }
    }
    ext
}

/// What Java turns a value into where it wants a string; None for null.
fn as_java_string(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
