//! Body of the fuzz target `store`. It also runs as a property test with every `cargo test`, see
//! `offline/tests/proptests.rs`.

#![allow(clippy::unwrap_used, reason = "a panic is the finding")]

use std::fs;

use mq_offline::Scan;

/// A log of any bytes is read to its end; damage is reported and never causes a panic.
pub fn store(bytes: &[u8]) {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("commitlog")).unwrap();
    let mut log = bytes.to_vec();
    log.resize(bytes.len().next_multiple_of(4096), 0);
    fs::write(root.path().join("commitlog/00000000000000000000"), log).unwrap();
    let Ok(scan) = Scan::open(root.path()) else {
        return;
    };
    let (mut offset, mut records) = (0, 0);
    while let Ok(chunk) = scan.records(offset, 1 << 20, true) {
        records += chunk.physical_offsets.len();
        if chunk.next_offset <= offset {
            break;
        }
        offset = chunk.next_offset;
    }
    assert!(records <= bytes.len() / 91);
    let _ = scan.verify(&mut |_| true);
}
