//! Any text as an SQL92 expression over any properties.

#![no_main]

#[path = "../requests.rs"]
mod requests;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| requests::filter(bytes));
