use super::*;

fn whole(kind: u8, header: &[u8], body: &[u8]) -> Vec<u8> {
    let mut frame = ((4 + header.len() + body.len()) as u32)
        .to_be_bytes()
        .to_vec();
    frame.extend_from_slice(&(u32::from(kind) << 24 | header.len() as u32).to_be_bytes());
    frame.extend_from_slice(header);
    frame.extend_from_slice(body);
    frame
}

#[test]
fn odd_json_headers_are_read_as_java_reads_them() {
    let header =
        br#" {"code":"10", "extFields":{"n":5,"b":true,"z":null,"o":{"k":1},"s":"x","s":"y"},
        "flag":0,"language":9,"opaque":7,"strange":[1,{}],"version":407} "#;
    let frame = whole(0, header, b"body");
    let decoded = Frame::decode(&frame).unwrap();
    assert_eq!(
        (decoded.code, decoded.opaque, decoded.version),
        (10, 7, 407)
    );
    assert_eq!(decoded.language.name(), "GO");
    assert_eq!(decoded.ext.get("n"), Some("5"));
    assert_eq!(decoded.ext.get("b"), Some("true"));
    assert_eq!(decoded.ext.get("z"), None);
    assert_eq!(decoded.ext.get("o"), Some(r#"{"k":1}"#));
    assert_eq!(decoded.ext.get("s"), Some("y"));
    assert_eq!(decoded.body, b"body");
}

#[test]
fn the_fast_reader_takes_the_last_of_repeated_names() {
    let frame = whole(
        0,
        br#"{"code":1,"extFields":{"a":"1","a":"2"},"flag":3}"#,
        b"",
    );
    let decoded = Frame::decode(&frame).unwrap();
    assert!(decoded.is_response() && decoded.is_oneway());
    assert_eq!(decoded.ext.get("a"), Some("2"));
}

#[test]
fn every_bad_length_is_an_error() {
    let good = whole(0, br#"{"code":1}"#, b"");
    for cut in 0..good.len() {
        assert!(Frame::decode(&good[..cut]).is_err(), "cut at {cut}");
    }
    let mut long_header = good.clone();
    long_header[7] += 1;
    let expected = FrameError::HeaderLength {
        header: 11,
        available: 10,
    };
    assert_eq!(Frame::decode(&long_header), Err(expected));
    assert_eq!(
        Frame::decode(&whole(7, b"", b"")),
        Err(FrameError::Serialize(7))
    );
}

#[test]
fn unreadable_headers_are_errors() {
    for header in [
        "",
        "nonsense",
        "[]",
        "{\"code\":99999999999}",
        "{\"code\":1",
        "{\"extFields\":3}",
    ] {
        let frame = whole(0, header.as_bytes(), b"");
        assert!(
            matches!(Frame::decode(&frame), Err(FrameError::Json(_))),
            "{header}"
        );
    }
    let fixed = [0u8; 21];
    assert!(Frame::decode(&whole(1, &fixed, b"")).is_ok());
    for cut in 0..fixed.len() {
        assert!(
            Frame::decode(&whole(1, &fixed[..cut], b"")).is_err(),
            "cut at {cut}"
        );
    }
    let mut negative_remark = fixed;
    negative_remark[13] = 0xFF;
    assert!(Frame::decode(&whole(1, &negative_remark, b"")).is_err());
}

#[test]
fn text_that_is_not_utf8_is_replaced_not_refused() {
    let frame = whole(0, b"{\"code\":1,\"remark\":\"\xFF\"}", b"");
    assert_eq!(
        Frame::decode(&frame).unwrap().remark.as_deref(),
        Some("\u{FFFD}")
    );
}

#[test]
fn replacing_a_bad_text_keeps_the_other_binary_fields() {
    let long = "é".repeat(100);
    let fields = [("a", "1"), ("n", ""), ("a", "2"), ("é", &*long), ("z", "Z")];
    let values = fields.map(|(name, value)| (name, FieldValue::Text(value)));
    let mut bytes = Vec::new();
    Head::request(10, 5, Serialize::RocketMq).encode(&values, b"", &mut bytes);
    let read = |frame: &Frame<'_>, last: &str| {
        assert_eq!([frame.ext.get("a"), frame.ext.get("n")], [Some("2"), None]);
        let expected = fields.map(|(name, value)| (name, if name == "z" { last } else { value }));
        assert_eq!(frame.ext.entries().collect::<Vec<_>>(), expected);
        let not_null = expected.iter().filter(|(_, value)| !value.is_empty());
        assert!(frame.ext.iter().eq(not_null.copied()));
    };
    let good = Frame::decode(&bytes).unwrap();
    read(&good, "Z");
    let mut again = Vec::new();
    good.encode(&mut again);
    assert_eq!(again, bytes);
    let mut bad = bytes.clone();
    *bad.last_mut().unwrap() = 0xFF;
    let replaced = Frame::decode(&bad).unwrap();
    read(&replaced, "\u{FFFD}");
    assert_ne!(replaced, good);
}

#[test]
fn replies_echo_serialisation_and_opaque() {
    for kind in [Serialize::Json, Serialize::RocketMq] {
        let mut request = Vec::new();
        let fields = [
            ("topic", "T\u{1}é".into()),
            ("queueId", 3.into()),
            ("order", true.into()),
        ];
        Head::request(105, 77, kind).encode(&fields, b"", &mut request);
        let request = Frame::decode(&request).unwrap();
        assert_eq!(request.ext.get("topic"), Some("T\u{1}é"));
        assert_eq!(request.ext.get("queueId"), Some("3"));
        assert_eq!(request.ext.get("order"), Some("true"));

        let mut bytes = Vec::new();
        request
            .reply(17, Some("no"))
            .encode(&[("offset", (-5i64).into())], b"xy", &mut bytes);
        let reply = Frame::decode(&bytes).unwrap();
        assert_eq!(
            (reply.code, reply.opaque, reply.flag),
            (17, 77, FLAG_RESPONSE)
        );
        assert_eq!(
            (reply.serialize, reply.remark.as_deref()),
            (kind, Some("no"))
        );
        assert_eq!(reply.ext.get("offset"), Some("-5"));
        assert_eq!(reply.body, b"xy");
    }
}

#[test]
fn renumbering_changes_the_opaque_and_nothing_else() {
    for kind in [Serialize::Json, Serialize::RocketMq] {
        let mut bytes = Vec::new();
        let fields = [("opaque", "9".into()), ("p", "x\u{1}".into())];
        let mut head = Head::request(10, 5, kind);
        head.remark = Some("say \"opaque\":4");
        head.encode(&fields, b"body", &mut bytes);
        let renumbered = renumber(&bytes, 1_234_567).unwrap();
        let mut expected = Frame::decode(&bytes).unwrap();
        expected.opaque = 1_234_567;
        assert_eq!(Frame::decode(&renumbered).unwrap(), expected);
    }
    assert!(renumber(&whole(0, b"{}", b""), 1).is_err());
    assert!(renumber(b"\0\0\0", 1).is_err());
}

#[test]
fn a_header_keeps_within_the_limits_of_bytes_and_fields() {
    const LIMITS: HeaderLimits = HeaderLimits {
        bytes: 500,
        fields: 3,
    };
    let names = ["a", "b", "c", "d"];
    for kind in [Serialize::Json, Serialize::RocketMq] {
        let with = |count: usize, value: &str| {
            let fields: Vec<_> = names[..count].iter().map(|n| (*n, value.into())).collect();
            let mut bytes = Vec::new();
            Head::request(10, 5, kind).encode(&fields, b"body", &mut bytes);
            bytes
        };
        let (fits, many) = (with(3, "1"), with(4, "1"));
        let long = with(1, &"x".repeat(500));
        assert_eq!(
            Frame::decode_within(&fits, LIMITS),
            Frame::decode(&fits),
            "{kind:?}"
        );
        let error = Frame::decode_within(&many, LIMITS).unwrap_err();
        assert_eq!(error, FrameError::HeaderFields { limit: 3 });
        let error = Frame::decode_within(&long, LIMITS).unwrap_err();
        assert!(matches!(error, FrameError::HeaderBytes { limit: 500, .. }));
        assert_eq!(LIMITS.check_start(&long[..8]), Err(error));
        assert_eq!(LIMITS.check_start(&long[..7]), Ok(()));
        assert!(Frame::decode(&many).is_ok() && Frame::decode(&long).is_ok());
    }
    let odd = whole(
        0,
        br#"{"code":"10","extFields":{"a":1,"b":2,"c":3,"d":4}}"#,
        b"",
    );
    assert_eq!(
        Frame::decode_within(&odd, LIMITS),
        Err(FrameError::HeaderFields { limit: 3 }),
        "the forgiving reader counts too"
    );
}
