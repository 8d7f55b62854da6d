//! The memory for reading the longest allowed headers. The allocator counts for each thread, so
//! these tests have their own binary.

#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use mq_format::remoting::{Frame, FrameError, HeaderLimits};

const HEADER_BYTES: usize = 256 << 10;
const LIMITS: HeaderLimits = HeaderLimits {
    bytes: HEADER_BYTES,
    fields: 256,
};
/// Bytes of the longest properties text of a message, whose length RocketMQ stores in 16 bits.
const PROPERTIES_BYTES: usize = 32_764;

/// Memory for the list of a header's fields, which even the shortest header needs.
const FIELDS_BYTES: usize = 1_024;

thread_local! {
    /// Bytes in use that this thread allocated. A thread that frees what another allocated counts
    /// below zero.
    static BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Adds to the bytes in use of this thread.
fn count(bytes: isize) {
    let now = BYTES.get() + bytes;
    BYTES.set(now);
    PEAK.set(PEAK.get().max(now));
}

/// The system's allocator, with the largest number of bytes that a thread had in use.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

fn frame(kind: u8, header: &[u8]) -> Vec<u8> {
    let length = u32::try_from(4 + header.len()).unwrap();
    let word = u32::from(kind) << 24 | u32::try_from(header.len()).unwrap();
    [&length.to_be_bytes(), &word.to_be_bytes(), header].concat()
}

fn json(members: &str) -> Vec<u8> {
    frame(
        0,
        format!(r#"{{"code":10,"opaque":1,{members}}}"#).as_bytes(),
    )
}

fn binary(fields: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut ext = Vec::new();
    for (name, value) in fields {
        ext.extend(i16::try_from(name.len()).unwrap().to_be_bytes());
        ext.extend(name.as_bytes());
        ext.extend(i32::try_from(value.len()).unwrap().to_be_bytes());
        ext.extend(value);
    }
    let mut header = vec![0, 10, 0, 1, 151, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    header.extend(i32::try_from(ext.len()).unwrap().to_be_bytes());
    header.extend(ext);
    frame(1, &header)
}

/// A text that fills a header up to about its limit.
fn filled(piece: &str) -> String {
    piece.repeat((HEADER_BYTES - 200) / piece.len())
}

/// Returns the largest number of bytes in use during decoding, and whether decoding succeeded.
fn cost(frame: &[u8]) -> (usize, Result<(), FrameError>) {
    let before = BYTES.get();
    PEAK.set(before);
    let read = Frame::decode_within(frame, LIMITS).map(drop);
    ((PEAK.get() - before).unsigned_abs(), read)
}

fn longest() -> Vec<(&'static str, Vec<u8>)> {
    let fields = |count: usize| {
        let value = "v".repeat((HEADER_BYTES - 200) / count - 12);
        let fields = (0..count).map(|number| format!(r#""k{number:03}":"{value}""#));
        format!(
            r#""extFields":{{{}}}"#,
            fields.collect::<Vec<_>>().join(",")
        )
    };
    let one = |value: String| json(&format!(r#""extFields":{{"i":"{value}"}}"#));
    let texts: Vec<_> = (0..256)
        .map(|n| (format!("k{n}"), vec![b'v'; 1_000]))
        .collect();
    vec![
        ("256 fields", json(&fields(256))),
        ("a field", json(&fields(1))),
        ("escapes", one(filled("\\u0001"))),
        ("quotes", one(filled("\\\""))),
        ("an escape at the end", one(filled("x") + "\\n")),
        ("surrogate pairs", one(filled("\\ud83d\\ude00"))),
        (
            "an unknown number",
            json(&format!(r#""x":[{}0]"#, filled("0,"))),
        ),
        (
            "unknown lists",
            json(&format!(r#""x":[{}0]"#, filled("[0],"))),
        ),
        (
            "unknown names",
            json(&format!(r#""x":{{{}"":0}}"#, filled(r#""a":0,"#))),
        ),
        (
            "a remark",
            json(&format!(r#""remark":"{}""#, filled("\\n"))),
        ),
        (
            "many members",
            json(&format!(r#"{}"x":0"#, filled(r#""y":0,"#))),
        ),
        (
            "a binary field",
            binary(&[("i".into(), filled("x").into())]),
        ),
        ("256 binary fields", binary(&texts)),
    ]
}

#[test]
fn the_longest_headers_cost_at_most_twice_their_size() {
    for (what, frame) in longest() {
        assert!(
            frame.len() > HEADER_BYTES - 8_192,
            "{what}: {}",
            frame.len()
        );
        let (bytes, read) = cost(&frame);
        assert_eq!(read, Ok(()), "{what}");
        assert!(
            bytes <= 2 * frame.len(),
            "{what}: {bytes} for {}",
            frame.len()
        );
    }
    let too_many: Vec<_> = (0..50_000).map(|n| format!(r#""{n}":1"#)).collect();
    let too_many = too_many.join(",");
    let nested = format!(r#""extFields":{{"i":[{}0]}}"#, filled("0,"));
    let loose = format!("\"extFields\":{{i:'{}'}}", filled("x"));
    let refused = [
        (
            "50,000 fields",
            json(&format!(r#""extFields":{{{}}}"#, &too_many[..250_000])),
        ),
        ("a nested value", json(&nested)),
        ("not strict", json(&loose)),
    ];
    for (what, frame) in refused {
        let (bytes, read) = cost(&frame);
        assert!(read.is_err(), "{what}");
        assert!(
            bytes <= 2 * frame.len(),
            "{what}: {bytes} for {}",
            frame.len()
        );
    }
}

/// Java replaces each byte that is not UTF-8 with three.
#[test]
fn text_that_is_not_utf_8_is_replaced_up_to_a_length() {
    let texts = |size: usize| {
        let one_bad_byte = ["x".repeat(size - 1).into_bytes(), vec![0xFF]].concat();
        [one_bad_byte, vec![0xFF; size]]
    };
    let frames = |size: usize| {
        texts(size).into_iter().flat_map(|text| {
            let start = br#"{"code":10,"opaque":1,"extFields":{"i":""#;
            let header = [&start[..], &text, b"\"}}"].concat();
            [frame(0, &header), binary(&[("i".into(), text)])]
        })
    };
    for frame in frames(HEADER_BYTES - 200) {
        let (bytes, read) = cost(&frame);
        assert!(
            matches!(read, Err(FrameError::HeaderText { .. })),
            "{read:?}"
        );
        assert!(bytes <= 2 * frame.len(), "{bytes} for {}", frame.len());
    }
    for (number, frame) in frames((64 << 10) - 200).enumerate() {
        let (bytes, read) = cost(&frame);
        assert_eq!(read, Ok(()));
        let has_one_bad_byte = number < 2;
        let bound = if has_one_bad_byte {
            2 * frame.len() + FIELDS_BYTES
        } else {
            2 * HEADER_BYTES
        };
        assert!(bytes <= bound, "{bytes} for {}", frame.len());
    }
}

#[test]
fn a_legal_message_of_many_short_properties_passes() {
    let mut properties = String::new();
    while properties.len() + 4 <= PROPERTIES_BYTES {
        properties.push_str("a\u{1}b\u{2}");
    }
    assert_eq!(properties.len(), PROPERTIES_BYTES);
    let escaped = properties
        .replace('\u{1}', "\\u0001")
        .replace('\u{2}', "\\u0002");
    let frames = [
        json(&format!(r#""extFields":{{"a":"p","i":"{escaped}"}}"#)),
        binary(&[
            ("a".into(), b"p".to_vec()),
            ("i".into(), properties.clone().into_bytes()),
        ]),
    ];
    assert!(
        (114_000..115_000).contains(&frames[0].len()),
        "{}",
        frames[0].len()
    );
    for frame in &frames {
        let read = Frame::decode_within(frame, LIMITS).unwrap();
        assert_eq!(read.ext.get("i"), Some(properties.as_str()));
    }
}
