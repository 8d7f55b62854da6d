//! Any bytes as the header of a frame, JSON or binary.

#![no_main]

#[path = "../requests.rs"]
mod requests;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| requests::header(bytes));
