//! Simulates bit rot.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Flips the bits of `mask` in one byte of a file.
pub fn flip(path: &Path, at: u64, mask: u8) {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ mask], at).unwrap();
}
