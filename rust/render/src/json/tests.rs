//! The text of JSON lines. `tests/common/test_json_lines.py` compares the lines with Python's.

use super::{BodyText, json_lines};
use crate::sink::Sink;
use crate::text::{write_base64, write_number, write_string, write_time};
use mq_testing::stores::records;

fn text(write: impl FnOnce(&mut Sink)) -> String {
    let mut out = Sink::default();
    write(&mut out);
    String::from_utf8(out.as_bytes().to_vec()).unwrap()
}

#[test]
fn numbers_have_every_length_and_sign() {
    let mut value = 1_i64;
    for _ in 0..19 {
        for number in [value, value - 1, -value, value.wrapping_mul(7)] {
            assert_eq!(text(|out| write_number(number, out)), number.to_string());
        }
        value = value.wrapping_mul(10);
    }
    for number in [i64::MIN, i64::MAX] {
        assert_eq!(text(|out| write_number(number, out)), number.to_string());
    }
}

#[test]
fn times_are_of_utc_and_null_beyond_the_calendar() {
    let time = |ms| text(|out| write_time(ms, out));
    assert_eq!(time(0), "\"1970-01-01T00:00:00.000+00:00\"");
    assert_eq!(time(-1), "\"1969-12-31T23:59:59.999+00:00\"");
    assert_eq!(time(951_782_400_123), "\"2000-02-29T00:00:00.123+00:00\"");
    assert_eq!(time(1_795_246_270_490), "\"2026-11-21T07:31:10.490+00:00\"");
    assert_eq!(
        time(-62_135_596_800_000),
        "\"0001-01-01T00:00:00.000+00:00\""
    );
    assert_eq!(
        time(253_402_300_799_999),
        "\"9999-12-31T23:59:59.999+00:00\""
    );
    assert_eq!(time(253_402_300_800_000), "null");
    assert_eq!(time(-62_135_596_800_001), "null");
    assert_eq!(time(i64::MIN), "null");
}

#[test]
fn strings_are_escaped_and_base64_is_padded() {
    let escaped = text(|out| write_string("a\"b\\c\n\r\t\u{8}\u{c}\u{1}\u{7f}é", out));
    assert_eq!(escaped, "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\u{7f}é\"");
    for (bytes, expected) in [
        ("", ""),
        ("M", "TQ=="),
        ("Ma", "TWE="),
        ("Man", "TWFu"),
        ("Many", "TWFueQ=="),
    ] {
        let quoted = format!("\"{expected}\"");
        assert_eq!(text(|out| write_base64(bytes.as_bytes(), out)), quoted);
    }
}

#[test]
fn every_record_of_java_becomes_a_line_that_parses() {
    let (records, count) = records("store");
    let mut refused = |_: &[u8], _: i32| Err("no".to_owned());
    let out = json_lines(&records, BodyText::Text, &mut refused).unwrap();
    let lines: Vec<serde_json::Value> = std::str::from_utf8(out.as_bytes())
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), count);
    assert!(lines.iter().any(|line| line["bodyError"] == "no"));
    assert!(lines.iter().any(|line| line["body"] == "Hello RocketMQ 3"));
    json_lines(b"no record", BodyText::None, &mut refused).unwrap_err();
}
