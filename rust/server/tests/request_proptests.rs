//! Formats that clients send: any bytes are read or refused, and a refusal changes nothing.

#![allow(clippy::unwrap_used, reason = "a test's helpers")]

#[path = "../../fuzz/requests.rs"]
mod requests;

use proptest::prelude::*;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

/// Frames of a few bytes, some with a wrong length.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let frame = (0..40_u32, prop::collection::vec(any::<u8>(), 4..40)).prop_map(|(wrong, rest)| {
        let length = rest.len() as u32 + wrong.saturating_sub(36);
        [&length.to_be_bytes()[..], &rest].concat()
    });
    prop::collection::vec(frame, 0..12).prop_map(|frames| frames.concat())
}

/// JSON with the names of a header's fields, and values of right and wrong types.
fn json_header() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        "-?[0-9]{1,12}".prop_map(|number| number),
        "\"[a-zA-Z0-9 \\\\u\"]{0,12}\"".prop_map(|text| text),
        Just("null".to_owned()),
        Just(r#"{"a":"b","c":1,"d":{"e":[1]}}"#.to_owned()),
    ];
    let name = "code|flag|language|opaque|remark|version|extFields|serializeTypeCurrentRPC|x";
    prop::collection::vec((name, value), 0..8).prop_map(|pairs| {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| format!("\"{name}\":{value}"))
            .collect();
        format!("\0{{{}}}", pairs.join(",")).into_bytes()
    })
}

/// RocketMQ's binary header, with fields whose lengths are right or slightly wrong.
fn binary_header() -> impl Strategy<Value = Vec<u8>> {
    let field = ("[a-z]{0,6}", "[ -~]{0,12}", 0..20_u8);
    let fixed = any::<(i16, u8, i16, i32, i32)>();
    (fixed, "[a-z]{0,8}", prop::collection::vec(field, 0..5)).prop_map(|(fixed, remark, fields)| {
        let mut out = vec![1];
        out.extend(fixed.0.to_be_bytes());
        out.push(fixed.1);
        out.extend(fixed.2.to_be_bytes());
        out.extend(fixed.3.to_be_bytes());
        out.extend(fixed.4.to_be_bytes());
        out.extend((remark.len() as u32).to_be_bytes());
        out.extend(remark.as_bytes());
        let mut map = Vec::new();
        for (name, value, wrong) in &fields {
            map.extend((name.len() as u16).to_be_bytes());
            map.extend(name.as_bytes());
            let length = value.len() as u32 + u32::from(*wrong == 0);
            map.extend(length.to_be_bytes());
            map.extend(value.as_bytes());
        }
        out.extend((map.len() as u32).to_be_bytes());
        out.extend(map);
        out
    })
}

/// Words of the grammar, then properties.
fn filter() -> impl Strategy<Value = Vec<u8>> {
    let word = "NOT|AND|OR|BETWEEN|IN|IS|NULL|TRUE|a|b|5|5.5|'x'|\\(|\\)|,|=|<>|>=|-|é|\\$|\"";
    (prop::collection::vec(word, 0..30), bytes()).prop_map(|(words, properties)| {
        let text = words.join(" ").into_bytes();
        let mut properties = [&b"a\x015\x02b\x01x\x02"[..], &properties].concat();
        // The target uses the first half as the expression.
        properties.resize(text.len(), 0);
        [text, properties].concat()
    })
}

/// Messages of a batch, most of them with correct lengths.
fn batch() -> impl Strategy<Value = Vec<u8>> {
    let message = (
        bytes(),
        "[a-zA-Z0-9\x01\x02]{0,30}",
        0..60_i32,
        any::<[u8; 12]>(),
    );
    let message = message.prop_map(|(body, text, wrong, head)| {
        let nudge = |which: i32| i32::from(wrong == which);
        let total = 4 + 12 + 4 + body.len() as i32 + 2 + text.len() as i32 + nudge(0) - nudge(1);
        let mut out = total.to_be_bytes().to_vec();
        out.extend(head);
        out.extend((body.len() as i32 + nudge(2)).to_be_bytes());
        out.extend(body);
        out.extend((text.len() as i16 - nudge(3) as i16).to_be_bytes());
        out.extend(text.as_bytes());
        out
    });
    prop::collection::vec(message, 0..6).prop_map(|messages| messages.concat())
}

proptest! {
    #[test]
    fn frames_do_not_depend_on_how_bytes_arrive(
        stream in prop_oneof![bytes(), frames()],
        step in any::<u8>(),
    ) {
        requests::stream(&[&[step], &stream[..]].concat());
    }

    #[test]
    fn any_header_is_read_or_refused(
        header in prop_oneof![bytes(), json_header(), binary_header()],
    ) {
        requests::header(&header);
    }

    #[test]
    fn any_expression_is_compiled_or_refused(text in prop_oneof![bytes(), filter()]) {
        requests::filter(&text);
    }

    #[test]
    fn a_batch_is_stored_whole_or_not_at_all(body in prop_oneof![bytes(), batch()]) {
        requests::batch(&body);
    }
}
