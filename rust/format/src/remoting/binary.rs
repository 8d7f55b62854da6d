//! RocketMQ's binary header.
//!
//! ```text
//! | code i16 | language i8 | version i16 | opaque i32 | flag i32 |
//! | remark: i32 length, UTF-8 | fields: i32 length of all, then repeated |
//! |     name: i16 length, UTF-8 | value: i32 length, UTF-8 |
//! ```
//! A zero length is RocketMQ's null, for the remark and for fields.

use super::limits::{check_fields, check_replaced};
use super::{ExtFields, FieldValue, Frame, FrameError, Head, Language, text_of};
use crate::bytes::{Cursor, CursorError};

/// Reads a header of at most `fields_max` fields.
pub(super) fn decode(header: &[u8], fields_max: usize) -> Result<Frame<'_>, FrameError> {
    let mut cursor = Cursor::new(header);
    let mut frame = Frame::blank(ExtFields::absent());
    frame.code = cursor.i16()?.into();
    frame.language = Language(cursor.u8()?);
    frame.version = cursor.i16()?.into();
    frame.opaque = cursor.i32()?;
    frame.flag = cursor.i32()?;
    let remark_length = cursor.i32()?;
    let remark = cursor.take_signed(remark_length.into())?;
    if std::str::from_utf8(remark).is_err() {
        check_replaced(header.len())?;
    }
    frame.remark = (!remark.is_empty()).then(|| text_of(remark));
    let fields_length = cursor.i32()?;
    let fields = cursor.take_signed(fields_length.into())?;
    cursor.finish()?;
    if !fields.is_empty() {
        frame.ext = decode_fields(fields, fields_max)?;
    }
    Ok(frame)
}

fn decode_fields(fields: &[u8], fields_max: usize) -> Result<ExtFields<'_>, FrameError> {
    // One check for all fields: lengths below 128, as most are, are ASCII too.
    let is_ascii = fields.is_ascii();
    let mut is_text = true;
    let mut count = 0;
    let mut rest = Cursor::new(fields);
    while rest.remaining() > 0 {
        count += 1;
        check_fields(count, fields_max)?;
        for piece in <[&[u8]; 2]>::from(next_field(&mut rest)?) {
            is_text = is_text && (is_ascii || std::str::from_utf8(piece).is_ok());
        }
    }
    if is_text {
        return Ok(ExtFields::on_wire(Texts { rest: fields }));
    }
    check_replaced(fields.len())?;
    let mut rest = Cursor::new(fields);
    let mut ext = ExtFields::empty(true);
    while rest.remaining() > 0 {
        let (name, value) = next_field(&mut rest)?;
        ext.push(text_of(name), text_of(value));
    }
    Ok(ext)
}

#[inline]
fn next_field<'a>(rest: &mut Cursor<'a>) -> Result<(&'a [u8], &'a [u8]), CursorError> {
    let name_length = rest.i16()?;
    let name = rest.take_signed(name_length.into())?;
    let value_length = rest.i32()?;
    let value = rest.take_signed(value_length.into())?;
    Ok((name, value))
}

/// Names and values of a binary header whose lengths are all correct and whose texts are all UTF-8.
#[derive(Debug, Clone)]
pub struct Texts<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Texts<'a> {
    type Item = (&'a str, &'a str);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let mut rest = Cursor::new(self.rest);
        let (name, value) = next_field(&mut rest).ok()?;
        self.rest = rest.rest();
        // SAFETY: only `decode_fields` creates this type. It has checked that both texts are UTF-8,
        // and it reads the fields in the same way, so the positions are the same.
        unsafe {
            let name = std::str::from_utf8_unchecked(name);
            Some((name, std::str::from_utf8_unchecked(value)))
        }
    }
}

/// Writes the header. A code over 32767 wraps, as in RocketMQ; such codes need JSON.
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
    // RocketMQ's names are short; a name that exceeds its length field is truncated.
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

/// Sets the length field at `at` to the number of bytes after it.
pub(super) fn patch_length(at: usize, out: &mut [u8]) {
    let length = (out.len() - at - 4) as i32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}
