//! Any bytes as a stream of frames, in pieces of any size.

#![no_main]

#[path = "../requests.rs"]
mod requests;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| requests::stream(bytes));
