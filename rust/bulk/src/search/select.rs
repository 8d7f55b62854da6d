//! Selects the wanted records of a reply.

use mq_format::message::{CheckCrc, RecordView};

use super::conditions::{Conditions, Verdict};
use super::wanted::Decompress;

/// The wanted records so far, and the records that could not be searched.
#[derive(Debug, Default)]
pub struct Selection {
    /// Whole records, one after the other.
    pub records: Vec<u8>,
    /// Number of wanted records.
    pub messages: usize,
    /// Queue offsets of records that could not be searched, and why.
    pub unsearched: Vec<(i64, String)>,
    /// Number of records whose body should be JSON and is not.
    pub not_json: i64,
}

impl Selection {
    /// Adds the records that meet the conditions, until there are `messages_max`; `records` holds
    /// whole, checked records of one queue. Returns the queue offset after the last one looked at,
    /// None if all were.
    pub fn add(
        &mut self,
        records: &[u8],
        conditions: &Conditions,
        messages_max: usize,
        decompress: &mut Decompress<'_>,
    ) -> Option<i64> {
        let mut rest = records;
        // The reader has checked the records.
        while let Ok(record) = RecordView::parse(rest, CheckCrc::No) {
            let (bytes, after) = rest.split_at(record.size());
            rest = after;
            match conditions.check(&record, decompress) {
                Ok(Verdict::Match) => {
                    self.records.extend_from_slice(bytes);
                    self.messages += 1;
                }
                Ok(Verdict::NoMatch) => {}
                Ok(Verdict::NotJson) => self.not_json += 1,
                Err(why) => self.unsearched.push((record.queue_offset, why)),
            }
            if self.messages >= messages_max && !rest.is_empty() {
                return Some(record.queue_offset + 1);
            }
        }
        None
    }
}
