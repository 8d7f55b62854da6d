//! Any bytes as a commit log, read offline.

#![no_main]

#[path = "../directory.rs"]
mod directory;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| directory::store(bytes));
