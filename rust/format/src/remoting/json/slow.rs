//! The lenient reader of JSON headers: it accepts unknown keys, quoted numbers and unusual values.
//!
//! It skips values that it does not need without storing them: a header with a hundred thousand
//! small values must not use many times its own memory.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::limits::check_fields;
use super::super::{ExtFields, Frame, FrameError, Language};
use crate::fastjson;

/// A longer header must be strict JSON, bytes: rewriting needs several times its memory.
const REWRITTEN_BYTES_MAX: usize = 64 << 10;
/// Longest array or object as the value of a field, bytes.
const NESTED_BYTES_MAX: usize = 4 << 10;

/// Why text cannot be read.
enum Wrong {
    /// It is not strict JSON.
    Syntax(serde_json::Error),
    /// It is strict JSON with an invalid value.
    Frame(FrameError),
}

impl From<serde_json::Error> for Wrong {
    fn from(error: serde_json::Error) -> Self {
        Self::Syntax(error)
    }
}

/// Reads any header that fastjson would read, into owned texts.
pub(super) fn decode<'a>(text: &str, fields_max: usize) -> Result<Frame<'a>, FrameError> {
    let why = match read(text, fields_max) {
        Ok(frame) => return Ok(frame),
        Err(Wrong::Frame(error)) => return Err(error),
        Err(Wrong::Syntax(why)) => why,
    };
    if text.len() > REWRITTEN_BYTES_MAX {
        return Err(bad(&format_args!(
            "{why}, and only a header of up to {REWRITTEN_BYTES_MAX} bytes may be less strict"
        )));
    }
    let strict = fastjson::to_strict(text).map_err(|error| bad(&error))?;
    read(&strict, fields_max).map_err(|wrong| match wrong {
        Wrong::Syntax(error) => bad(&error),
        Wrong::Frame(error) => error,
    })
}

fn bad(cause: &dyn fmt::Display) -> FrameError {
    FrameError::Json(cause.to_string())
}

/// Reads strict JSON.
fn read<'a>(text: &str, fields_max: usize) -> Result<Frame<'a>, Wrong> {
    if !text.trim_start().starts_with('{') {
        serde_json::from_str::<IgnoredAny>(text)?;
        return Err(Wrong::Frame(bad(&"not an object")));
    }
    let members: Members<'_> = serde_json::from_str(text)?;
    let mut frame = Frame::blank(ExtFields::absent());
    frame.code = integer(members.code, "code")?;
    frame.flag = integer(members.flag, "flag")?;
    frame.opaque = integer(members.opaque, "opaque")?;
    frame.version = integer(members.version, "version")?;
    frame.language = language(members.language)?;
    frame.remark = match members.remark {
        Some(remark) => java_string(remark)?.map(Into::into),
        None => None,
    };
    if let Some(fields) = members.ext_fields.filter(|fields| fields.get() != "null") {
        if !fields.get().starts_with('{') {
            return Err(Wrong::Frame(bad(&"extFields is not an object")));
        }
        frame.ext = ext_fields(fields, fields_max)?;
    }
    Ok(frame)
}

fn language(value: Option<&RawValue>) -> Result<Language, Wrong> {
    let Some(text) = value.map(RawValue::get) else {
        return Ok(Language::OTHER);
    };
    if text.starts_with('"') {
        return Ok(Language::from_name(&serde_json::from_str::<String>(text)?));
    }
    Ok(text.parse().map_or(Language::OTHER, Language))
}

/// Reads a number or a string that holds one; missing and null count as 0, as in Java.
fn integer(value: Option<&RawValue>, name: &str) -> Result<i32, Wrong> {
    let text = value.map_or("null", RawValue::get);
    let parsed = match text.as_bytes()[0] {
        b'n' => Some(0),
        b'"' => serde_json::from_str::<String>(text)?.trim().parse().ok(),
        _ => text.parse().ok(),
    };
    let wrong = || Wrong::Frame(bad(&format_args!("{name} is not a 32-bit number")));
    parsed.ok_or_else(wrong)
}

/// Converts a value to the string that Java would make of it; None for null.
fn java_string(value: &RawValue) -> Result<Option<String>, Wrong> {
    let text = value.get();
    Ok(match text.as_bytes()[0] {
        b'n' => None,
        b'"' => Some(serde_json::from_str(text)?),
        b'{' | b'[' if text.len() > NESTED_BYTES_MAX => {
            let length = text.len();
            let why = format_args!("{length} bytes of nested values where there should be text");
            return Err(Wrong::Frame(bad(&why)));
        }
        _ => Some(serde_json::from_str::<Value>(text)?.to_string()),
    })
}

fn ext_fields<'a>(fields: &RawValue, fields_max: usize) -> Result<ExtFields<'a>, Wrong> {
    let mut reader = serde_json::Deserializer::from_str(fields.get());
    let mut wrong = None;
    let seed = FieldsSeed {
        fields_max,
        wrong: &mut wrong,
    };
    let read = seed.deserialize(&mut reader);
    match wrong {
        Some(wrong) => Err(wrong),
        None => Ok(read?),
    }
}

/// The known members, not yet parsed; the last one counts if a name repeats.
#[derive(Default)]
struct Members<'a> {
    code: Option<&'a RawValue>,
    flag: Option<&'a RawValue>,
    language: Option<&'a RawValue>,
    opaque: Option<&'a RawValue>,
    version: Option<&'a RawValue>,
    remark: Option<&'a RawValue>,
    ext_fields: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Members::default();
        while let Some(Text(key)) = map.next_key()? {
            let member = match key.as_ref() {
                "code" => &mut members.code,
                "flag" => &mut members.flag,
                "language" => &mut members.language,
                "opaque" => &mut members.opaque,
                "version" => &mut members.version,
                "remark" => &mut members.remark,
                "extFields" => &mut members.ext_fields,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *member = Some(map.next_value()?);
        }
        Ok(members)
    }
}

/// Reads `extFields`; `wrong` gets the error, unless it is a syntax error.
struct FieldsSeed<'w> {
    fields_max: usize,
    wrong: &'w mut Option<Wrong>,
}

impl<'de> DeserializeSeed<'de> for FieldsSeed<'_> {
    type Value = ExtFields<'static>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldsSeed<'_> {
    type Value = ExtFields<'static>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut ext = ExtFields::empty(false);
        let mut count = 0;
        while let Some((Text(name), value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
            count += 1;
            let allowed = check_fields(count, self.fields_max).map_err(Wrong::Frame);
            match allowed.and_then(|()| java_string(value)) {
                Ok(Some(value)) => ext.push(Cow::Owned(name.into_owned()), value.into()),
                Ok(None) => {}
                Err(wrong) => {
                    *self.wrong = Some(wrong);
                    return Err(A::Error::custom("a field that cannot be read"));
                }
            }
        }
        Ok(ext)
    }
}
