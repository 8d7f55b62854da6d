//! The stored messages of a pull's reply, one after another.

use mq_format::message::{CheckCrc, RecordView};

/// Where a record's queue offset is.
const QUEUE_OFFSET_AT: usize = 20;

/// One stored message, read no further than asked for.
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

/// The records of a reply's body. Each begins with its size; a wrong one ends them.
pub(super) fn records(mut body: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let size = u32::from_be_bytes(*body.first_chunk::<4>()?) as usize;
        let (record, rest) = body.split_at_checked(size.max(4))?;
        body = rest;
        Some(Record(record))
    })
}
