//! The offset message id: upper-case hex of `store host IP | port (int) | physical offset`.
//!
//! 32 characters with an IPv4 host, 56 with an IPv6 one.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use crate::bytes::Cursor;

/// Returns the id of the record at `physical_offset` of the broker at `store_host`.
pub fn encode(store_host: SocketAddr, physical_offset: i64) -> String {
    let mut text = String::with_capacity(56);
    write_hex(&mut text, store_host, physical_offset);
    text
}

/// Returns the ids of a batch, joined by commas.
pub fn encode_batch(store_host: SocketAddr, physical_offsets: &[i64]) -> String {
    let mut text = String::with_capacity(physical_offsets.len() * 33);
    for physical_offset in physical_offsets {
        if !text.is_empty() {
            text.push(',');
        }
        write_hex(&mut text, store_host, *physical_offset);
    }
    text
}

/// Returns host and physical offset of an id; None if it is not an id.
pub fn decode(text: &str) -> Option<(SocketAddr, i64)> {
    let bytes = decode_hex(text)?;
    let mut cursor = Cursor::new(&bytes);
    let ip = match bytes.len() {
        16 => IpAddr::from(<[u8; 4]>::try_from(cursor.take(4).ok()?).ok()?),
        28 => IpAddr::from(<[u8; 16]>::try_from(cursor.take(16).ok()?).ok()?),
        _ => return None,
    };
    let port = u16::try_from(cursor.u32().ok()?).ok()?;
    Some((SocketAddr::new(ip, port), cursor.i64().ok()?))
}

fn write_hex(text: &mut String, store_host: SocketAddr, physical_offset: i64) {
    // Writing to a String cannot fail.
    let _ = match store_host.ip() {
        IpAddr::V4(address) => write!(text, "{:08X}", address.to_bits()),
        IpAddr::V6(address) => write!(text, "{:032X}", address.to_bits()),
    };
    let _ = write!(text, "{:08X}{physical_offset:016X}", store_host.port());
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.bytes().map(|byte| char::from(byte).to_digit(16));
    let digits = digits.collect::<Option<Vec<_>>>()?;
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs
        .map(|pair| u8::try_from(pair[0] << 4 | pair[1]).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_round_trip() {
        let v4 = "127.0.0.1:10911".parse().unwrap();
        assert_eq!(encode(v4, 190), "7F00000100002A9F00000000000000BE");
        assert_eq!(decode("7F00000100002A9F00000000000000BE"), Some((v4, 190)));
        let v6 = "[2001:db8::1]:10911".parse().unwrap();
        assert_eq!(encode(v6, 1).len(), 56);
        assert_eq!(decode(&encode(v6, 1)), Some((v6, 1)));
        let batch = encode_batch(v4, &[0, 190]);
        assert_eq!(batch, format!("{},{}", encode(v4, 0), encode(v4, 190)));
    }

    #[test]
    fn text_that_is_not_an_id_is_refused() {
        for text in [
            "",
            "7F",
            "7F00000100002A9F00000000000000B",
            "ZF00000100002A9F00000000000000BE",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
        assert_eq!(decode("7F000001FFFF2A9F00000000000000BE"), None);
    }
}
