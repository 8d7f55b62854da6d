//! Any bytes on the HA port of a master, and any bytes from a master to its slave.

#![no_main]

#[path = "../peers.rs"]
mod peers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| peers::peer(bytes));
