//! Python door of `format::reply_records`.

use pyo3::prelude::*;

use mq_format::reply_records::damaged;

/// The damaged records of a reply: start, bytes, and the damage. A record with a damaged size
/// extends to the end of the reply.
#[pyfunction]
pub fn damaged_records(body: &[u8]) -> Vec<(usize, usize, String)> {
    let row = |found: &mq_format::reply_records::Damaged| {
        let size = found.size.unwrap_or(body.len() - found.at);
        (found.at, size, found.error.to_string())
    };
    damaged(body).iter().map(row).collect()
}
