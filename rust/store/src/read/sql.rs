//! Reads messages of a queue that match an SQL92 expression over their properties.

use super::reader::Reader;
use super::records::{Records, Run, Selection};
use crate::derive::queues::ext::ExtReader;
use crate::derive::queues::queue::ConsumeQueue;
use crate::filter::{BloomHint, MessageFilter};
use crate::types::{GetRequest, ReadMode, WouldBlock};
use mq_format::consume_queue::{ENTRY_BYTES, QueueEntry};
use mq_format::message::{CheckCrc, RecordView};

impl Reader {
    /// Scans the queue's entries and appends the matching records to `out`; None if the entries
    /// cannot be read. As with tags, messages that do not match do not count towards the batch.
    pub(crate) fn select_matching(
        &self,
        queue: &ConsumeQueue,
        request: &GetRequest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Selection, Records)>, WouldBlock> {
        let max_count = usize::try_from(request.max_count).unwrap_or(0);
        let (from, mode, mut entry_bytes) = (request.offset, request.mode, Vec::new());
        let is_read = queue.read(from, Self::scan_bytes(max_count), mode, &mut entry_bytes)?
            && self.repair_entries(queue, from, mode, &mut entry_bytes)?;
        if !is_read {
            return Ok(None);
        }
        let (mut selection, mut records) = (Selection::default(), Records::default());
        let marks = match request.filter {
            MessageFilter::Marked(_, marks) => Some(marks),
            _ => None,
        };
        let mut extension = queue.tags_codes(request.mode);
        debug_assert!(entry_bytes.len().is_multiple_of(ENTRY_BYTES));
        let entries: Vec<_> = QueueEntry::decode_all(&entry_bytes).collect();
        if request.mode == ReadMode::Wait {
            self.ahead.read(&self.log, &entries);
        }
        for entry in entries {
            selection.last_physical_offset = entry.physical_offset;
            if self.is_full(&selection, &entry, request) {
                break;
            }
            let place = selection.scanned;
            selection.scanned += 1;
            if entry.is_hole() {
                selection.was_removing = true;
                continue;
            }
            if let Some(marks) = marks
                && is_ruled_out(marks, &entry, &mut extension)?
            {
                selection.was_removing = false;
                continue;
            }
            let at = out.len();
            let one = std::slice::from_ref(&entry);
            let run = Run::new(request, one, std::slice::from_ref(&place));
            match self.read_run(run, request.mode, out)? {
                // The next pull starts with the message that could not be read.
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

/// Whether the extension shows that the message of an entry cannot match the expression.
fn is_ruled_out(
    marks: &BloomHint,
    entry: &QueueEntry,
    extension: &mut ExtReader<'_>,
) -> Result<bool, WouldBlock> {
    let unit = extension.unit(entry)?;
    Ok(unit.is_some_and(|unit| marks.rule_out(unit.bitmap, entry.physical_offset)))
}

fn matches(filter: &MessageFilter, bytes: &[u8]) -> bool {
    let record = RecordView::parse(bytes, CheckCrc::No);
    record.is_ok_and(|record| filter.matches_properties(record.properties))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::settings::{QueueExt, Settings};
    use crate::tests::store_rig::{Rig, rig_with, settings};
    use crate::tests::test_rig::request;
    use crate::types::{GetStatus, PutRequest};
    use mq_format::bloom;
    use mq_format::filter::Sql;

    const BITS: u32 = 112;

    /// Sets the bits 1 to 3 if property b is y. The expressions of the tests read property a.
    fn extended() -> Rig {
        let rig = rig_with(Settings {
            queue_ext: QueueExt {
                enabled: true,
                ..QueueExt::default()
            },
            ..settings()
        });
        rig.store
            .set_bitmap_source(Box::new(|record| {
                let mut bitmap = vec![0; BITS as usize / 8];
                if record.properties.windows(3).any(|text| text == b"b\x01y") {
                    bloom::set(&mut bitmap, &[1, 2, 3]);
                }
                Some(bitmap)
            }))
            .unwrap();
        rig
    }

    fn put(rig: &Rig, properties: &str) {
        let put = rig.store.put(&PutRequest {
            properties: properties.as_bytes(),
            ..request("T", b"small")
        });
        rig.store.wait(put);
        rig.wait_until_flushed();
    }

    /// Messages found by `a > 5` with a bitmap of this length, trusted from a log offset on.
    fn found(rig: &Rig, bits: Option<(u32, i64)>) -> (GetStatus, i32, i64) {
        let sql = Arc::new(Sql::compile("a > 5").unwrap());
        let filter = match bits {
            None => MessageFilter::Sql(sql),
            Some((count, since)) => {
                let marks = BloomHint::new(count, vec![1, 2, 3]);
                marks.set_valid_from(since);
                MessageFilter::Marked(sql, Arc::new(marks))
            }
        };
        let request = GetRequest {
            topic: "T",
            queue_id: 1,
            offset: 0,
            max_count: 32,
            filter: &filter,
            mode: ReadMode::Wait,
        };
        let got = rig.store.get(&request, &mut Vec::new()).unwrap();
        (got.status, got.message_count, got.next_begin_offset)
    }

    /// Wrong bits show whether they are used: a message that would match is skipped without a read.
    #[test]
    fn a_message_is_read_only_if_its_bits_do_not_rule_it_out() {
        let rig = extended();
        let all = ["a\x016\x02b\x01n", "a\x016\x02b\x01y", "a\x015\x02b\x01y"];
        all.iter().for_each(|properties| put(&rig, properties));
        let middle = rig.store.max_physical_offset();
        all.iter().for_each(|properties| put(&rig, properties));
        let answer = |count| (GetStatus::Found, count, 6);
        assert_eq!(found(&rig, None), answer(4));
        assert_eq!(found(&rig, Some((BITS, 0))), answer(2));
        // Bits from before the filter was created are not trusted, nor bits of another length.
        assert_eq!(found(&rig, Some((BITS, middle))), answer(3));
        assert_eq!(found(&rig, Some((BITS, i64::MAX))), answer(4));
        assert_eq!(found(&rig, Some((BITS - 8, 0))), answer(4));
    }

    #[test]
    fn a_pull_without_a_match_continues_after_the_scanned_entries() {
        let rig = extended();
        (0..3).for_each(|_| put(&rig, "a\x016\x02b\x01n"));
        let nothing = (GetStatus::NoMatchedMessage, 0, 3);
        assert_eq!(found(&rig, Some((BITS, 0))), nothing);
    }
}
