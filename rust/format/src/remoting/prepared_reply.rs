//! A successful JSON reply in which only some values differ.

use super::decimal::push_decimal;
use super::head::prefix;
use super::{FLAG_RESPONSE, FieldValue, Language, PREFIX_BYTES, Serialize, VERSION};
use crate::fastjson::write_string;

/// Enough bytes for any number.
const NUMBER_BYTES: usize = 20;

/// Replies with code 0 and mostly constant fields. The text between the open values is encoded once
/// and then copied.
#[derive(Debug, Clone)]
pub struct PreparedReply {
    /// The constant text before each open value.
    before: Vec<Vec<u8>>,
    before_opaque: Vec<u8>,
    rest: Vec<u8>,
    /// Size of all constant texts, bytes.
    size_bytes: usize,
}

impl PreparedReply {
    /// fields: in wire order, at least one; a field without a value is open and given with each
    /// reply.
    pub fn new(fields: &[(&str, Option<&str>)]) -> Self {
        let mut text = vec![0; PREFIX_BYTES];
        text.extend_from_slice(b"{\"code\":0,\"extFields\":{");
        let mut before = Vec::new();
        for (index, (name, value)) in fields.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            write_string(name, &mut text);
            text.push(b':');
            match value {
                Some(value) => write_string(value, &mut text),
                None => {
                    text.push(b'"');
                    before.push(std::mem::take(&mut text));
                    text.push(b'"');
                }
            }
        }
        let language = Language::PYTHON.name();
        let end = format!("}},\"flag\":{FLAG_RESPONSE},\"language\":\"{language}\",\"opaque\":");
        text.extend_from_slice(end.as_bytes());
        let rest = format!(",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":{VERSION}}}");
        let parts = before.iter().map(Vec::len).sum::<usize>();
        Self {
            size_bytes: parts + text.len() + rest.len(),
            before,
            before_opaque: text,
            rest: rest.into_bytes(),
        }
    }

    /// Appends a whole frame; `values` are the open fields in order. Their texts must not need JSON
    /// escapes.
    pub fn encode(&self, opaque: i32, values: &[FieldValue<'_>], out: &mut Vec<u8>) {
        let start = out.len();
        let bytes = values.iter().map(|value| match value {
            FieldValue::Text(text) => text.len(),
            FieldValue::Number(_) => NUMBER_BYTES,
        });
        out.reserve(self.size_bytes + bytes.sum::<usize>() + NUMBER_BYTES);
        for (before, value) in self.before.iter().zip(values) {
            out.extend_from_slice(before);
            value.push(out);
        }
        out.extend_from_slice(&self.before_opaque);
        push_decimal(opaque.into(), out);
        out.extend_from_slice(&self.rest);
        let header_bytes = out.len() - start - PREFIX_BYTES;
        let prefix = prefix(Serialize::Json, header_bytes, 0);
        out[start..start + PREFIX_BYTES].copy_from_slice(&prefix);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remoting::{Head, ReplyTo};

    #[test]
    fn the_bytes_equal_those_of_a_head() {
        let region = "a \"region\" \u{1}é";
        let fields = [
            ("queueId", None),
            ("MSG_REGION", Some(region)),
            ("msgId", None),
            ("queueOffset", None),
        ];
        let prepared = PreparedReply::new(&fields);
        for (opaque, number, text) in [(7, -1, "7F00"), (i32::MIN, i64::MIN, ""), (0, 0, "A,B")] {
            let open = [3.into(), FieldValue::Text(text), number.into()];
            let all = [
                ("queueId", open[0]),
                ("MSG_REGION", FieldValue::Text(region)),
                ("msgId", open[1]),
                ("queueOffset", open[2]),
            ];
            let (mut out, mut expected) = (b"before".to_vec(), b"before".to_vec());
            prepared.encode(opaque, &open, &mut out);
            let to = ReplyTo {
                opaque,
                serialize: Serialize::Json,
            };
            Head::reply(to, 0, None).encode(&all, &[], &mut expected);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn all_may_be_fixed() {
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        PreparedReply::new(&[("a", Some("b"))]).encode(5, &[], &mut out);
        let to = ReplyTo {
            opaque: 5,
            serialize: Serialize::Json,
        };
        let fields = [("a", FieldValue::Text("b"))];
        Head::reply(to, 0, None).encode(&fields, &[], &mut expected);
        assert_eq!(out, expected);
    }
}
