//! Python door of `format::reply_records`.

use pyo3::prelude::*;

use mq_format::reply_records::damaged;

/// The damaged records of a reply: where each starts, its bytes, what is wrong. One whose size is
/// damaged takes the rest of the reply.
#[pyfunction]
pub fn damaged_records(body: &[u8]) -> Vec<(usize, usize, String)> {
    let row = |found: &mq_format::reply_records::Damaged| {
        let size = found.size.unwrap_or(body.len() - found.at);
        (found.at, size, found.error.to_string())
    };
    damaged(body).iter().map(row).collect()
}
