//! A binary header in which only some fields differ between frames.

use super::binary;
use super::head::prefix;
use super::{FieldValue, Head, PREFIX_BYTES, Serialize};

const OPAQUE_AT: usize = PREFIX_BYTES + 5;
const FLAG_AT: usize = OPAQUE_AT + 4;
/// Position of the length of all fields, after the empty remark's length.
const FIELDS_LENGTH_AT: usize = FLAG_AT + 8;

/// Frames of one code with mostly constant fields.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The parts of the frame that end with an open field, in order.
    open: Vec<Open>,
    /// The constant fields after the last open one.
    rest: Vec<u8>,
    /// Size of all parts, bytes.
    size_bytes: usize,
}

#[derive(Debug, Clone)]
struct Open {
    before: Vec<u8>,
    /// Name of the field with its length, and a value length of 0.
    name: Vec<u8>,
}

impl Prepared {
    /// fields: in wire order; a field without a value is open and given with each request.
    pub fn new(code: i32, fields: &[(&str, Option<&str>)]) -> Self {
        let mut before = Vec::new();
        Head::request(code, 0, Serialize::RocketMq).encode(&[], &[], &mut before);
        let mut open = Vec::new();
        for (name, value) in fields {
            match value {
                Some(text) => binary::push_field(name, FieldValue::Text(text), &mut before),
                None => {
                    let mut field = Vec::new();
                    binary::push_field(name, FieldValue::Text(""), &mut field);
                    open.push(Open {
                        before: std::mem::take(&mut before),
                        name: field,
                    });
                }
            }
        }
        let sizes = open.iter().map(|one| one.before.len() + one.name.len());
        Self {
            size_bytes: sizes.sum::<usize>() + before.len(),
            open,
            rest: before,
        }
    }

    /// Appends a whole frame; `values` are the open fields in order, None omits one.
    pub fn encode<'v>(
        &self,
        opaque: i32,
        flag: i32,
        values: impl IntoIterator<Item = Option<FieldValue<'v>>>,
        body: &[u8],
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        out.reserve(self.size_bytes + body.len());
        for (open, value) in self.open.iter().zip(values) {
            out.extend_from_slice(&open.before);
            let Some(value) = value else { continue };
            out.extend_from_slice(&open.name);
            let value_at = out.len() - 4;
            value.push(out);
            binary::patch_length(value_at, out);
        }
        out.extend_from_slice(&self.rest);
        binary::patch_length(start + FIELDS_LENGTH_AT, out);
        let frame = &mut out[start..];
        frame[OPAQUE_AT..OPAQUE_AT + 4].copy_from_slice(&opaque.to_be_bytes());
        frame[FLAG_AT..FLAG_AT + 4].copy_from_slice(&flag.to_be_bytes());
        let header_bytes = frame.len() - PREFIX_BYTES;
        let prefix = prefix(Serialize::RocketMq, header_bytes, body.len());
        frame[..PREFIX_BYTES].copy_from_slice(&prefix);
        out.extend_from_slice(body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remoting::FLAG_ONEWAY;

    const FIELDS: [(&str, Option<&str>); 6] = [
        ("a", Some("group")),
        ("f", None),
        ("i", None),
        ("k", Some("false")),
        ("l", None),
        ("n", Some("broker-a")),
    ];

    fn as_head(values: &[Option<FieldValue<'_>>], flag: i32, body: &[u8]) -> Vec<u8> {
        let mut given = values.iter().copied();
        let fields: Vec<_> = FIELDS
            .iter()
            .filter_map(|(name, fixed)| {
                let value = fixed.map(FieldValue::Text);
                Some((*name, value.or_else(|| given.next().flatten())?))
            })
            .collect();
        let mut head = Head::request(310, 0x0102_0304, Serialize::RocketMq);
        head.flag = flag;
        let mut out = b"before".to_vec();
        head.encode(&fields, body, &mut out);
        out
    }

    #[test]
    fn the_bytes_equal_those_of_a_head() {
        let prepared = Prepared::new(310, &FIELDS);
        let text = |text| Some(FieldValue::Text(text));
        let cases = [
            [Some(FieldValue::Number(-7)), text("p\u{1}é\u{2}"), None],
            [None, None, None],
            [text(""), Some(FieldValue::Number(i64::MIN)), text("16")],
        ];
        for values in cases {
            for (flag, body) in [(0, &b"body"[..]), (FLAG_ONEWAY, b"")] {
                let mut out = b"before".to_vec();
                prepared.encode(0x0102_0304, flag, values, body, &mut out);
                assert_eq!(out, as_head(&values, flag, body));
            }
        }
    }

    #[test]
    fn constant_fields_need_no_values() {
        let prepared = Prepared::new(10, &[("b", Some("T"))]);
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        prepared.encode(5, 0, [], b"x", &mut out);
        let fields = [("b", FieldValue::Text("T"))];
        Head::request(10, 5, Serialize::RocketMq).encode(&fields, b"x", &mut expected);
        assert_eq!(out, expected);
    }
}
