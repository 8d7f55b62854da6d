//! Checks that the records of a reply belong to the range of the pull.

use mq_format::message::Outline;
use mq_format::reply_records::records;

/// Topics whose records keep the queue and the offset of their original topic.
const MULTI_DISPATCH_PREFIX: &str = "%LMQ%";

/// Conditions on every record of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    /// The queue id in every record; None if records of the topic name another queue.
    queue_id: Option<i32>,
    /// Whether the broker leaves out messages because of a filter.
    pub is_filtered: bool,
}

/// Records of a reply that belong to the range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    /// Bytes from the start of the reply; the records after them begin at `limit`.
    pub size_bytes: usize,
    pub messages: i64,
    /// Offsets before `limit` without a record: the first one and their number, each run of them.
    pub missing: Vec<(i64, i64)>,
}

impl Rules {
    /// The rules of a topic's queue.
    pub fn new(topic: &str, queue_id: i32, is_filtered: bool) -> Self {
        Self {
            queue_id: (!topic.starts_with(MULTI_DISPATCH_PREFIX)).then_some(queue_id),
            is_filtered,
        }
    }

    /// Checks all records of a reply to a pull at `first` whose next pull begins at `next`, and
    /// keeps the records before `limit`. The error describes the first bad record.
    pub(super) fn check(
        &self,
        body: &[u8],
        first: i64,
        next: i64,
        limit: i64,
    ) -> Result<Kept, String> {
        let mut kept = Kept {
            size_bytes: 0,
            messages: 0,
            missing: Vec::new(),
        };
        let mut expected = first;
        for record in records(body) {
            let record = record.map_err(|damaged| damaged.error.to_string())?;
            let offset = match self.queue_id {
                None => expected,
                Some(queue_id) => offset_in(record, queue_id)?,
            };
            if offset < expected || offset >= next {
                return Err(format!(
                    "its queue offset is {offset}, outside {expected} to {next}"
                ));
            }
            kept.miss(expected, offset.min(limit));
            expected = offset + 1;
            if offset < limit {
                kept.size_bytes += record.len();
                kept.messages += 1;
            }
        }
        kept.miss(expected, limit);
        Ok(kept)
    }
}

impl Kept {
    /// Notes that the offsets from `first` to before `end` have no record.
    fn miss(&mut self, first: i64, end: i64) {
        if first < end {
            self.missing.push((first, end - first));
        }
    }
}

/// Returns the queue offset of a whole record, if the record belongs to that queue.
fn offset_in(record: &[u8], queue_id: i32) -> Result<i64, String> {
    let outline = Outline::parse(record).map_err(|error| error.to_string())?;
    if outline.queue_id == queue_id {
        return Ok(outline.queue_offset);
    }
    Err(format!("it is of queue {}", outline.queue_id))
}

#[cfg(test)]
mod tests {
    use super::super::tests::model::{QUEUE, record};
    use super::*;

    #[test]
    fn records_of_another_queue_are_refused_except_in_lmq_topics() {
        let body = [record(5), record(6)].concat();
        let check = |topic, queue_id| Rules::new(topic, queue_id, false).check(&body, 5, 7, 6);
        let kept = check("T", QUEUE).unwrap();
        assert_eq!((kept.size_bytes, kept.messages), (record(5).len(), 1));
        let error = check("T", QUEUE + 1).unwrap_err();
        assert_eq!(error, "it is of queue 3");
        assert_eq!(check("%LMQ%T", 0).unwrap(), kept);
    }
}
