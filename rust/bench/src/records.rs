//! The stored messages of a pull's reply, one after another.

use mq_format::message::{CheckCrc, RecordView};
use mq_format::reply_records::{self, Damaged};

/// Position of the queue offset in a record.
const QUEUE_OFFSET_AT: usize = 20;

/// One whole message; only the requested fields are decoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a>(&'a [u8]);

impl<'a> Record<'a> {
    /// The message's number in its queue; None in a record too short to have one.
    pub fn queue_offset(self) -> Option<i64> {
        let bytes = self.0.get(QUEUE_OFFSET_AT..)?.first_chunk::<8>()?;
        Some(i64::from_be_bytes(*bytes))
    }

    /// All fields; None if the record cannot be read.
    pub fn view(self) -> Option<RecordView<'a>> {
        RecordView::parse(self.0, CheckCrc::No).ok()
    }
}

/// The records of a reply's body, checked as a client does.
pub(super) fn records(body: &[u8]) -> impl Iterator<Item = Result<Record<'_>, Damaged>> {
    reply_records::records(body).map(|record| record.map(Record))
}
