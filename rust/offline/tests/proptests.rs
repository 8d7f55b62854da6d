//! A log of any bytes can be read without a panic.

#[path = "../../fuzz/directory.rs"]
mod directory;

use proptest::prelude::*;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..400)
}

/// Bytes with a record's magic in its place, so that more checks than the first run.
fn record_like() -> impl Strategy<Value = Vec<u8>> {
    (bytes(), 0..400_u32).prop_map(|(mut bytes, size)| {
        bytes.resize(bytes.len().max(100), 0);
        bytes[..4].copy_from_slice(&size.to_be_bytes());
        bytes[4..8].copy_from_slice(&0xDAA3_20A7_u32.to_be_bytes());
        bytes
    })
}

proptest! {
    #[test]
    fn a_log_of_any_bytes_can_be_read(
        parts in prop::collection::vec(prop_oneof![bytes(), record_like()], 0..8),
    ) {
        directory::store(&parts.concat());
    }
}
