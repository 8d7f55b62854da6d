//! Selects the records that become rows.

use std::collections::HashSet;

use crate::fields::Fields;
use mq_format::properties;

/// Conditions on records.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Only this topic.
    pub topic: Option<String>,
    /// Only these queues.
    pub queue_ids: Option<HashSet<i32>>,
    /// Only these tags.
    pub tags: Option<HashSet<String>>,
    /// First offset in the queue.
    pub first_queue_offset: i64,
    /// End of the queue offsets, exclusive.
    pub end_queue_offset: i64,
    /// End of the physical offsets, exclusive.
    pub end_physical_offset: i64,
}

impl Default for Choice {
    /// Accepts all records.
    fn default() -> Self {
        Self {
            topic: None,
            queue_ids: None,
            tags: None,
            first_queue_offset: 0,
            end_queue_offset: i64::MAX,
            end_physical_offset: i64::MAX,
        }
    }
}

impl Choice {
    pub(super) fn has(&self, record: &Fields<'_>) -> bool {
        (self.first_queue_offset..self.end_queue_offset).contains(&record.queue_offset())
            && record.physical_offset() < self.end_physical_offset
            && self
                .queue_ids
                .as_ref()
                .is_none_or(|ids| ids.contains(&record.queue_id()))
            && self
                .topic
                .as_deref()
                .is_none_or(|topic| topic == record.topic)
            && self.tags.as_ref().is_none_or(|tags| {
                let tag = properties::get_str(record.properties, properties::TAGS);
                tag.is_some_and(|tag| tags.contains(tag.as_ref()))
            })
    }
}
