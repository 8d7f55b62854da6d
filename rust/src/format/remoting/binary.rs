//! RocketMQ's binary header.
//!
//! ```text
//! | code i16 | language i8 | version i16 | opaque i32 | flag i32 |
//! | remark: i32 length, UTF-8 | fields: i32 length of all, then repeated |
//! |     name: i16 length, UTF-8 | value: i32 length, UTF-8 |
//! ```
//! A zero length is RocketMQ's null, for the remark as for a field.

use super::{ExtFields, FieldValue, Frame, FrameError, Head, Language, text_of};
use crate::bytes::Cursor;

pub(super) fn decode(header: &[u8]) -> Result<Frame<'_>, FrameError> {
    let mut cursor = Cursor::new(header);
    let mut frame = Frame::blank(ExtFields::absent());
    frame.code = cursor.i16()?.into();
    frame.language = Language(cursor.u8()?);
    frame.version = cursor.i16()?.into();
    frame.opaque = cursor.i32()?;
    frame.flag = cursor.i32()?;
    let remark_length = cursor.i32()?;
    let remark = cursor.take_signed(remark_length.into())?;
    frame.remark = (!remark.is_empty()).then(|| text_of(remark));
    let fields_length = cursor.i32()?;
    let fields = cursor.take_signed(fields_length.into())?;
    cursor.finish()?;
    if !fields.is_empty() {
        frame.ext = decode_fields(fields)?;
    }
    Ok(frame)
}

fn decode_fields(fields: &[u8]) -> Result<ExtFields<'_>, FrameError> {
    let mut cursor = Cursor::new(fields);
    let mut ext = ExtFields::empty(true);
    while cursor.remaining() > 0 {
        let name_length = cursor.i16()?;
        let name = cursor.take_signed(name_length.into())?;
        let value_length = cursor.i32()?;
        let value = cursor.take_signed(value_length.into())?;
        ext.push(text_of(name), text_of(value));
    }
    Ok(ext)
}

/// Writes the header. A code over 32767 wraps, as in RocketMQ: such codes need JSON.
pub(super) fn write<'f, I>(head: &Head<'_>, fields: Option<I>, out: &mut Vec<u8>)
where
    I: Iterator<Item = (&'f str, FieldValue<'f>)>,
{
    out.extend_from_slice(&(head.code as i16).to_be_bytes());
    out.push(head.language.0);
    out.extend_from_slice(&(head.version as i16).to_be_bytes());
    out.extend_from_slice(&head.opaque.to_be_bytes());
    out.extend_from_slice(&head.flag.to_be_bytes());
    let remark = head.remark.unwrap_or("");
    push_length(remark.len(), out);
    out.extend_from_slice(remark.as_bytes());

    let length_at = out.len();
    push_length(0, out);
    for (name, value) in fields.into_iter().flatten() {
        push_field(name, value, out);
    }
    patch_length(length_at, out);
}

/// Appends one field.
pub(super) fn push_field(name: &str, value: FieldValue<'_>, out: &mut Vec<u8>) {
    // RocketMQ's names are short; one that does not fit its length field is cut off.
    let name = &name.as_bytes()[..name.len().min(i16::MAX as usize)];
    out.extend_from_slice(&(name.len() as i16).to_be_bytes());
    out.extend_from_slice(name);
    let value_at = out.len();
    push_length(0, out);
    value.push(out);
    patch_length(value_at, out);
}

fn push_length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as i32).to_be_bytes());
}

/// Sets the length field at `at` to the bytes written after it.
pub(super) fn patch_length(at: usize, out: &mut [u8]) {
    let length = (out.len() - at - 4) as i32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}
