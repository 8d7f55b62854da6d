//! The hosts of a record as text, from their stored bytes.

use super::fields::Fields;
use super::sink::Sink;
use super::text::{write_hex_upper, write_number, write_octet};

/// The offset message id of a record.
#[inline]
pub(super) fn write_offset_id(record: &Fields<'_>, out: &mut Sink) {
    write_hex_upper(record.store_host(), out);
    write_hex_upper(&record.physical_offset().to_be_bytes(), out);
}

/// `ip:port`, with brackets around an IPv6 address.
pub(super) fn write_host(host: &[u8], out: &mut Sink) {
    let (address, port) = host.split_at(host.len().saturating_sub(4));
    if let Ok(octets) = <[u8; 16]>::try_from(address) {
        out.push(b'[');
        write_ipv6(octets, out);
        out.push(b']');
    } else {
        write_octets(address, out);
    }
    out.push(b':');
    let port = port.try_into().map_or(0, i32::from_be_bytes);
    write_number(port.into(), out);
}

/// Like C's `inet_ntop`, which also writes an IPv4-compatible address (`::a.b.c.d`) with dots.
fn write_ipv6(octets: [u8; 16], out: &mut Sink) {
    let (zeros, ipv4) = octets.split_at(12);
    if zeros == [0; 12] && ipv4[..2] != [0; 2] {
        out.put_all(b"::");
        return write_octets(ipv4, out);
    }
    out.put(std::net::Ipv6Addr::from(octets).to_string().as_bytes());
}

fn write_octets(octets: &[u8], out: &mut Sink) {
    for (at, octet) in octets.iter().enumerate() {
        if at > 0 {
            out.push(b'.');
        }
        write_octet(*octet, out);
    }
}
