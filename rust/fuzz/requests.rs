//! Bodies of the fuzz targets for bytes that clients send. They also run as property tests with
//! every `cargo test`, see `server/tests/request_proptests.rs`.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each target uses one; a panic is the finding"
)]

use std::sync::{Arc, LazyLock};

use mq_base::clock::SystemClock;
use mq_format::bytes::Cursor;
use mq_format::filter::Sql;
use mq_format::remoting::{Frame, HeaderLimits, renumber};
use mq_net::frame::FrameSplitter;
use mq_store::{PutRequest, PutStatus, Settings, Store};

const FRAME_BYTES_MAX: usize = 1 << 16;
/// A log of this size has room for every batch that a target makes.
const LOG_FILE_BYTES: u64 = 4 << 20;

/// Splits a stream into frames; the flag says whether it ended with an invalid length.
fn split(stream: &[u8], step: usize) -> (Vec<Vec<u8>>, bool) {
    let mut splitter = FrameSplitter::new(FRAME_BYTES_MAX, HeaderLimits::NONE);
    let mut frames = Vec::new();
    for mut piece in stream.chunks(step) {
        loop {
            match splitter.next(&mut piece) {
                Ok(Some(whole)) => frames.push(whole.bytes().to_vec()),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
    }
    (frames, false)
}

/// The first byte is the size of the pieces in which the rest arrives. The frames are the same as
/// if all bytes arrived at once, and every byte is in a frame or in an unfinished one.
pub fn stream(bytes: &[u8]) {
    let Some((step, stream)) = bytes.split_first() else {
        return;
    };
    let whole = split(stream, stream.len().max(1));
    assert_eq!(split(stream, usize::from(*step) + 1), whole);
    let taken: usize = whole.0.iter().map(Vec::len).sum();
    assert_eq!(whole.0.concat(), stream[..taken]);
}

/// A frame whose header consists of these bytes. The first byte chooses JSON, RocketMQ's binary
/// layout, or a serialization that does not exist.
pub fn header(bytes: &[u8]) {
    let Some((serialize, header)) = bytes.split_first() else {
        return;
    };
    let mut frame = (4 + header.len() as u32).to_be_bytes().to_vec();
    frame.push(serialize % 3);
    frame.extend_from_slice(&(header.len() as u32).to_be_bytes()[1..]);
    frame.extend_from_slice(header);
    let Ok(decoded) = Frame::decode(&frame) else {
        return;
    };
    let mut again = Vec::new();
    decoded.encode(&mut again);
    let reread = Frame::decode(&again).unwrap();
    // An ordinal that stands for no language is written as the name OTHER.
    assert_eq!(reread.language.name(), decoded.language.name());
    assert_eq!(
        Frame {
            language: decoded.language,
            ..reread
        },
        decoded
    );
    // Only frames that we encode are renumbered: other frames may have no request number, or two.
    let renumbered = renumber(&again, 77).unwrap();
    let renumbered = Frame::decode(&renumbered).unwrap();
    assert_eq!(renumbered.opaque, 77);
    assert_eq!(
        (renumbered.code, renumbered.ext, renumbered.remark),
        (decoded.code, decoded.ext, decoded.remark)
    );
}

/// Text compiles to a filter or is refused; a compiled filter accepts any properties.
pub fn filter(bytes: &[u8]) {
    let (text, properties) = bytes.split_at(bytes.len() / 2);
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    if let Ok(sql) = Sql::compile(text) {
        let answer = sql.matches(properties);
        assert_eq!(
            Sql::compile(sql.text()).unwrap().matches(properties),
            answer
        );
    }
}

/// Number of messages in a batch body, None if the bytes are no batch body. Each message has total
/// size, magic, CRC, flag, body and properties, the last two with their length.
fn count_messages(body: &[u8]) -> Option<usize> {
    let mut cursor = Cursor::new(body);
    let mut count = 0;
    while cursor.remaining() > 0 {
        let total = i64::from(cursor.i32().ok()?);
        let mut message = Cursor::new(cursor.take_signed(total - 4).ok()?);
        message.take_signed(12).ok()?;
        let body_bytes = message.i32().ok()?;
        message.take_signed(body_bytes.into()).ok()?;
        let properties_bytes = message.i16().ok()?;
        message.take_signed(properties_bytes.into()).ok()?;
        message.finish().ok()?;
        count += 1;
    }
    Some(count)
}

/// A batch body is stored as a whole, with a queue offset for each message, or not at all.
pub fn batch(bytes: &[u8]) {
    static STORE: LazyLock<(tempfile::TempDir, Arc<Store>)> = LazyLock::new(|| {
        let root = tempfile::tempdir().unwrap();
        let settings = Settings {
            commit_log_file_bytes: Some(LOG_FILE_BYTES),
            min_free_bytes: Some(0),
            index_enabled: false,
            ..Settings::default()
        };
        let store = Store::open(root.path(), settings, SystemClock::shared(), true).unwrap();
        (root, store)
    });
    let store = &STORE.1;
    let before = store.max_physical_offset();
    let put = store.put_batch(&PutRequest {
        topic: "batches",
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: 1,
        born_host: "127.0.0.1:50000".parse().unwrap(),
        store_host: "127.0.0.1:10911".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: bytes,
        properties: b"",
        wait_store_ok: true,
        delay_level: 0,
        was_accepted: false,
    });
    let result = store.wait(put);
    let count = count_messages(bytes).filter(|count| *count > 0);
    match result.status {
        PutStatus::Ok => assert_eq!(Some(result.record_offsets.len()), count),
        _ => assert_eq!(store.max_physical_offset(), before),
    }
}
