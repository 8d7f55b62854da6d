//! Replaces the correlation number of an encoded request.

use super::decimal::push_decimal;
use super::head::prefix;
use super::json::Scanner;
use super::{FrameError, PREFIX_BYTES, Serialize, split};

/// Position of `opaque` in a binary header: after code, language and version.
const BINARY_OPAQUE_AT: usize = PREFIX_BYTES + 5;

/// Copies a whole frame and sets its opaque, so that the encoder need not know the connection.
///
/// # Errors
/// `FrameError` when the frame is not well formed.
pub fn renumber(frame: &[u8], opaque: i32) -> Result<Vec<u8>, FrameError> {
    let (serialize, header, body) = split(frame)?;
    if serialize == Serialize::RocketMq {
        let mut copy = frame.to_vec();
        let field = copy.get_mut(BINARY_OPAQUE_AT..BINARY_OPAQUE_AT + 4);
        let field = field.ok_or(FrameError::HeaderLength {
            header: header.len(),
            available: 9,
        })?;
        field.copy_from_slice(&opaque.to_be_bytes());
        return Ok(copy);
    }
    let (start, end) = find(header).ok_or_else(|| FrameError::Json("no opaque".to_owned()))?;
    let mut copy = Vec::with_capacity(frame.len() + 10);
    copy.extend_from_slice(&frame[..PREFIX_BYTES + start]);
    push_decimal(opaque.into(), &mut copy);
    copy.extend_from_slice(&header[end..]);
    let words = prefix(serialize, copy.len() - PREFIX_BYTES, body.len());
    copy[..PREFIX_BYTES].copy_from_slice(&words);
    copy.extend_from_slice(body);
    Ok(copy)
}

/// Returns the first and last position of the number in a JSON header.
///
/// Our writers put it after `extFields` and before the remark, in which quotes are escaped. So the
/// last such key is the header's own.
fn find(header: &[u8]) -> Option<(usize, usize)> {
    const KEY: &[u8] = b"\"opaque\":";
    let start = header
        .windows(KEY.len())
        .rposition(|window| window == KEY)?
        + KEY.len();
    let mut scanner = Scanner::new(std::str::from_utf8(&header[start..]).ok()?);
    scanner.integer()?;
    Some((start, start + scanner.position()))
}
