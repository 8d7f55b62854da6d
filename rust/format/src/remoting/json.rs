//! The JSON header, as fastjson writes and reads it.
//!
//! There are two readers. The fast one accepts what clients really send: an object whose known
//! fields have their usual types. It borrows from the frame. All other headers go to the slow
//! reader, which is as lenient as fastjson.

mod marks;
mod scan;
mod slow;

use super::decimal::push_decimal;
use super::limits::check_replaced;
use super::{FieldValue, Frame, FrameError, Head, replaced};
use crate::fastjson::write_string;

pub(super) use scan::Scanner;

/// Reads a header of at most `fields_max` fields.
pub(super) fn decode(header: &[u8], fields_max: usize) -> Result<Frame<'_>, FrameError> {
    // Checked first, because the lossy conversion is several times slower even if it changes
    // nothing.
    let Ok(text) = std::str::from_utf8(header) else {
        check_replaced(header.len())?;
        return slow::decode(&replaced(header), fields_max);
    };
    match scan::decode(text, fields_max)? {
        Some(frame) => Ok(frame),
        None => slow::decode(text, fields_max),
    }
}

/// Writes the header with its keys in alphabetical order, without null values.
pub(super) fn write<'f, I>(head: &Head<'_>, fields: Option<I>, out: &mut Vec<u8>)
where
    I: Iterator<Item = (&'f str, FieldValue<'f>)>,
{
    out.extend_from_slice(b"{\"code\":");
    push_decimal(head.code.into(), out);
    if let Some(fields) = fields {
        out.extend_from_slice(b",\"extFields\":{");
        for (index, (name, value)) in fields.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_string(name, out);
            out.push(b':');
            write_value(value, out);
        }
        out.push(b'}');
    }
    out.extend_from_slice(b",\"flag\":");
    push_decimal(head.flag.into(), out);
    out.extend_from_slice(b",\"language\":\"");
    out.extend_from_slice(head.language.name().as_bytes());
    out.extend_from_slice(b"\",\"opaque\":");
    push_decimal(head.opaque.into(), out);
    if let Some(remark) = head.remark {
        out.extend_from_slice(b",\"remark\":");
        write_string(remark, out);
    }
    out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    push_decimal(head.version.into(), out);
    out.push(b'}');
}

fn write_value(value: FieldValue<'_>, out: &mut Vec<u8>) {
    match value {
        FieldValue::Text(text) => write_string(text, out),
        FieldValue::Number(number) => {
            out.push(b'"');
            push_decimal(number, out);
            out.push(b'"');
        }
    }
}
