//! The HA protocol of RocketMQ 4.9 (`HAService`, `HAConnection`), without sockets: bytes and times
//! in, bytes and calls on the log out.
//!
//! A slave sends 8 bytes: the offset up to which it has the log. The first such report is where it
//! wants to start; all are acknowledgements, and they are also its heartbeats. The master sends
//! frames of an 8-byte offset, a 4-byte length and bytes of its log. A frame without
//! bytes is its heartbeat.
//!
//! ```text
//! slave to master    offset i64
//! master to slave    offset i64 | length i32 | bytes
//! ```
//!
//! Numbers are big-endian. Neither side believes the other: what cannot be true is a [`Fault`],
//! which ends the connection.

mod fault;
mod master;
mod records;
#[cfg(test)]
pub(crate) mod simulation;
mod slave;

pub use fault::Fault;
pub use master::{LogRange, MasterSide, MasterTiming, Step};
pub use slave::{Overlap, SlaveLog, SlaveSide, SlaveStart, SlaveTiming};

/// Bytes of a slave's report.
pub const REPORT_BYTES: usize = 8;
/// Bytes before the body of a master's frame.
pub const HEADER_BYTES: usize = 12;
/// Longest body that a slave takes: RocketMQ's slave has a buffer of 4 MiB for header and body.
pub const BODY_BYTES_MAX: usize = (4 << 20) - HEADER_BYTES;

/// The header of a frame whose body has at most [`BODY_BYTES_MAX`] bytes.
pub fn header(offset: u64, body_bytes: usize) -> [u8; HEADER_BYTES] {
    debug_assert!(body_bytes <= BODY_BYTES_MAX);
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&offset.to_be_bytes());
    header[8..].copy_from_slice(&(body_bytes as u32).to_be_bytes());
    header
}
