//! Any bytes as the body of a batch of messages.

#![no_main]

#[path = "../requests.rs"]
mod requests;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| requests::batch(bytes));
