//! Reading messages of a queue whose properties decide, by SQL92 expressions.

use std::sync::atomic::{AtomicI64, Ordering};

use super::reader::{Reader, Selection};
use super::records::{Records, Run};
use crate::derive::queues::ext::ExtReader;
use crate::derive::queues::queue::ConsumeQueue;
use crate::types::{GetRequest, ReadMode, TagFilter, WouldBlock};
use mq_format::bloom;
use mq_format::consume_queue::{ENTRY_BYTES, QueueEntry};
use mq_format::message::{CheckCrc, RecordView};
use mq_log::Files;

/// Which bits of the extension a message has that satisfies a group's expression.
///
/// RocketMQ goes by time: it believes the bits of messages stored after the filter was born, so
/// one that is dispatched before the filter is in force is lost to the group. Here they are
/// believed from an offset of the log on: its end at a time when the filter was in force already.
#[derive(Debug)]
pub struct Marks {
    bit_count: u32,
    positions: Vec<u32>,
    since: AtomicI64,
}

impl Marks {
    /// Bits of a bitmap of this size, which nobody believes yet.
    pub fn new(bit_count: u32, positions: Vec<u32>) -> Self {
        Self {
            bit_count,
            positions,
            since: AtomicI64::new(i64::MAX),
        }
    }

    /// The bits that a message gets.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// Whether both are the same bits.
    pub fn are(&self, other: &Self) -> bool {
        (self.bit_count, &self.positions) == (other.bit_count, &other.positions)
    }

    /// Believe the bits of messages from this offset of the log on.
    pub fn believe_from(&self, log_offset: i64) {
        self.since.store(log_offset, Ordering::Release);
    }

    /// The offset of the log from which on they are believed; the greatest there is for never.
    pub fn since(&self) -> i64 {
        self.since.load(Ordering::Acquire)
    }

    /// Believe no bits from now on: the expression is in force no more.
    pub fn retire(&self) {
        self.believe_from(i64::MAX);
    }

    /// Whether the message of this unit cannot satisfy the expression.
    fn rule_out(
        &self,
        entry: &QueueEntry,
        extension: &mut ExtReader<'_>,
    ) -> Result<bool, WouldBlock> {
        let Some(unit) = extension.unit(entry)? else {
            return Ok(false);
        };
        let is_ours = unit.bitmap.len() * 8 == self.bit_count as usize;
        // Asked after the unit was read: whoever retires does so before other bits are written.
        let is_believed = entry.physical_offset >= self.since();
        Ok(is_ours && is_believed && !bloom::is_set(unit.bitmap, &self.positions))
    }
}

impl<F: Files> Reader<F> {
    /// Goes through the queue's units and appends the records that match to `out`; None when the
    /// units cannot be read. As with tags, messages that do not match do not fill the batch.
    pub(crate) fn select_matching(
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
        let marks = match request.filter {
            TagFilter::Marked(_, marks) => Some(marks),
            _ => None,
        };
        let mut extension = queue.tags_codes(request.mode);
        debug_assert!(units.len().is_multiple_of(ENTRY_BYTES));
        let entries: Vec<_> = QueueEntry::decode_all(&units).collect();
        if request.mode == ReadMode::Wait {
            self.read_ahead(&entries);
        }
        for entry in entries {
            selection.last_physical_offset = entry.physical_offset;
            if self.is_full(&selection, &entry, request) {
                break;
            }
            let place = selection.scanned;
            selection.scanned += 1;
            if entry.is_filler() {
                selection.was_removing = true;
                continue;
            }
            if let Some(marks) = marks
                && marks.rule_out(&entry, &mut extension)?
            {
                selection.was_removing = false;
                continue;
            }
            let at = out.len();
            let one = std::slice::from_ref(&entry);
            let run = Run::new(request, one, std::slice::from_ref(&place));
            match self.read_run(run, request.mode, out)? {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::settings::{QueueExt, Settings};
    use crate::tests::store_rig::{Rig, rig_with, settings};
    use crate::tests::test_rig::request;
    use crate::types::{GetStatus, PutRequest};
    use mq_format::filter::Sql;

    const BITS: u32 = 112;

    /// Bits 1 to 3 are there where property b is y, whatever an expression would say of a.
    fn extended() -> Rig {
        let rig = rig_with(Settings {
            queue_ext: QueueExt {
                enabled: true,
                ..QueueExt::default()
            },
            ..settings()
        });
        rig.store.set_bitmap_source(Box::new(|record| {
            let mut bitmap = vec![0; BITS as usize / 8];
            if record.properties.windows(3).any(|text| text == b"b\x01y") {
                bloom::set(&mut bitmap, &[1, 2, 3]);
            }
            Some(bitmap)
        }));
        rig
    }

    fn put(rig: &Rig, properties: &str) {
        let put = rig.store.put(&PutRequest {
            properties: properties.as_bytes(),
            ..request("T", b"small")
        });
        rig.store.wait(put);
        rig.settle();
    }

    /// Messages found by `a > 5`, with bits of such a bitmap, believed from an offset of the log.
    fn found(rig: &Rig, bits: Option<(u32, i64)>) -> (GetStatus, i32, i64) {
        let sql = Arc::new(Sql::compile("a > 5").unwrap());
        let filter = match bits {
            None => TagFilter::Sql(sql),
            Some((count, since)) => {
                let marks = Marks::new(count, vec![1, 2, 3]);
                marks.believe_from(since);
                TagFilter::Marked(sql, Arc::new(marks))
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

    /// Bits that lie show who decides: a message that would match is passed over unread.
    #[test]
    fn a_message_is_read_only_where_its_bits_do_not_rule_it_out() {
        let rig = extended();
        let all = ["a\x016\x02b\x01n", "a\x016\x02b\x01y", "a\x015\x02b\x01y"];
        all.iter().for_each(|properties| put(&rig, properties));
        let middle = rig.store.max_physical_offset();
        all.iter().for_each(|properties| put(&rig, properties));
        let answer = |count| (GetStatus::Found, count, 6);
        assert_eq!(found(&rig, None), answer(4));
        assert_eq!(found(&rig, Some((BITS, 0))), answer(2));
        // Bits that are older than the filter are not believed, nor those of another shape.
        assert_eq!(found(&rig, Some((BITS, middle))), answer(3));
        assert_eq!(found(&rig, Some((BITS, i64::MAX))), answer(4));
        assert_eq!(found(&rig, Some((BITS - 8, 0))), answer(4));
    }

    #[test]
    fn where_no_message_is_left_the_reader_goes_on_behind_them() {
        let rig = extended();
        (0..3).for_each(|_| put(&rig, "a\x016\x02b\x01n"));
        let nothing = (GetStatus::NoMatchedMessage, 0, 3);
        assert_eq!(found(&rig, Some((BITS, 0))), nothing);
    }
}
