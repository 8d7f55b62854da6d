//! Reading messages of a queue whose properties decide, by SQL92 expressions.

use super::consume_queue::ConsumeQueue;
use super::read::{Reader, Selection};
use super::read_records::Records;
use super::types::{GetRequest, TagFilter, WouldBlock};
use crate::format::consume_queue::{ENTRY_BYTES, QueueEntry};
use crate::format::message::{CheckCrc, RecordView};
use crate::log::Files;

impl<F: Files> Reader<F> {
    /// Goes through the queue's units and appends the records that match to `out`; None when the
    /// units cannot be read. As with tags, messages that do not match do not fill the batch.
    pub(super) fn select_matching(
        &self,
        queue: &ConsumeQueue,
        request: &GetRequest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Selection, Records)>, WouldBlock> {
        let max_count = usize::try_from(request.max_count).unwrap_or(0);
        let mut units = Vec::new();
        if !queue.read(
            request.offset,
            Self::scan_bytes(max_count),
            request.mode,
            &mut units,
        )? {
            return Ok(None);
        }
        let (mut selection, mut records) = (Selection::default(), Records::default());
        debug_assert!(units.len().is_multiple_of(ENTRY_BYTES));
        for entry in QueueEntry::decode_all(&units) {
            selection.last_physical_offset = entry.physical_offset;
            if self.is_full(&selection, &entry, max_count) {
                break;
            }
            let place = selection.scanned;
            selection.scanned += 1;
            if entry.is_filler() {
                continue;
            }
            let at = out.len();
            match self.read_run(std::slice::from_ref(&entry), request.mode, out)? {
                // The next pull begins with the message that could not be read.
                None => {
                    selection.places.push(place);
                    records.failed_at = Some(selection.places.len() - 1);
                    break;
                }
                Some(0) => selection.was_removing = true,
                Some(_) if matches(request.filter, &out[at..]) => {
                    selection.bytes += out.len() - at;
                    selection.places.push(place);
                    selection.entries.push(entry);
                    records.count += 1;
                }
                Some(_) => {
                    selection.was_removing = false;
                    out.truncate(at);
                }
            }
        }
        Ok(Some((selection, records)))
    }
}

fn matches(filter: &TagFilter, bytes: &[u8]) -> bool {
    let record = RecordView::parse(bytes, CheckCrc::No);
    record.is_ok_and(|record| filter.matches_properties(record.properties))
}
