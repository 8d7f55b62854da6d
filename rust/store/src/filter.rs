//! Filters that select messages of a queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use mq_format::bloom;
use mq_format::filter::Sql;
use mq_format::properties;

/// Approximate memory of a compiled expression per byte of its text, bytes.
const SQL_BYTES: usize = 16;
/// Approximate memory of a map row for a topic's expression, without the topic's name, bytes.
const ROW_BYTES: usize = 64;

/// A filter of a consumer group.
#[derive(Debug, Clone, Default)]
pub enum MessageFilter {
    /// Every message (`*`).
    #[default]
    All,
    /// Messages whose tags code, low 32 bits, is one of these Java string hashes.
    Codes(Arc<[i32]>),
    /// Messages whose properties match an expression.
    Sql(Arc<Sql>),
    /// Like `Sql`, with bits of the extension that rule out some messages without reading them.
    Marked(Arc<Sql>, Arc<BloomHint>),
    /// Messages of a retry topic that match the expression for their original topic, if it has one.
    Retried(Arc<HashMap<String, Arc<Sql>>>),
}

impl MessageFilter {
    /// Whether a message with this tags code may pass (RocketMQ compares the low 32 bits).
    pub fn matches(&self, tags_code: i64) -> bool {
        match self {
            Self::All | Self::Sql(_) | Self::Marked(..) | Self::Retried(_) => true,
            #[expect(clippy::cast_possible_truncation, reason = "RocketMQ compares as int")]
            Self::Codes(codes) => codes.contains(&(tags_code as i32)),
        }
    }

    /// Approximate memory if the filter is not shared, bytes.
    pub fn own_bytes(&self) -> usize {
        match self {
            Self::All => 0,
            Self::Codes(codes) => size_of_val(&**codes),
            Self::Sql(sql) | Self::Marked(sql, _) => sql.text().len() * SQL_BYTES,
            Self::Retried(by_topic) => {
                let names = by_topic.keys().map(|topic| topic.len() + ROW_BYTES);
                names.sum()
            }
        }
    }

    /// Whether the filter needs the properties, so that every message must be read.
    pub fn reads_properties(&self) -> bool {
        self.is_sql() || matches!(self, Self::Retried(_))
    }

    /// Whether the filter is a single expression.
    pub fn is_sql(&self) -> bool {
        matches!(self, Self::Sql(_) | Self::Marked(..))
    }

    /// Whether a message with these properties matches.
    pub fn matches_properties(&self, text: &[u8]) -> bool {
        match self {
            Self::All | Self::Codes(_) => true,
            Self::Sql(sql) | Self::Marked(sql, _) => sql.matches(text),
            Self::Retried(by_topic) => {
                let topic = properties::get_str(text, properties::RETRY_TOPIC);
                let sql = topic.and_then(|topic| by_topic.get(&*topic));
                sql.is_none_or(|sql| sql.matches(text))
            }
        }
    }
}

/// The Bloom-filter bits in the extension of messages that match a group's expression.
///
/// RocketMQ trusts the bits of messages stored after the filter was created. A message dispatched
/// before the filter is active is then lost to the group. We trust the bits from a log offset on:
/// the end of the log at a time when the filter was active already.
#[derive(Debug)]
pub struct BloomHint {
    bit_count: u32,
    positions: Vec<u32>,
    valid_from: AtomicI64,
}

impl BloomHint {
    /// Bits in a bitmap of this size. They are not trusted yet.
    pub fn new(bit_count: u32, positions: Vec<u32>) -> Self {
        Self {
            bit_count,
            positions,
            valid_from: AtomicI64::new(i64::MAX),
        }
    }

    /// The positions of the bits.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// Whether both have the same bits.
    pub fn same_bits(&self, other: &Self) -> bool {
        (self.bit_count, &self.positions) == (other.bit_count, &other.positions)
    }

    /// Trust the bits of messages from this log offset on.
    pub fn set_valid_from(&self, log_offset: i64) {
        self.valid_from.store(log_offset, Ordering::Release);
    }

    /// The log offset from which the bits are trusted; `i64::MAX` if they are not.
    pub fn valid_from(&self) -> i64 {
        self.valid_from.load(Ordering::Acquire)
    }

    /// Stop trusting the bits, because the expression is no longer active.
    pub fn invalidate(&self) {
        self.set_valid_from(i64::MAX);
    }

    /// Whether a message with this bitmap cannot match the expression. Call this after reading the
    /// bitmap, because `retire` is called before other bits are written.
    pub(crate) fn rule_out(&self, bitmap: &[u8], physical_offset: i64) -> bool {
        let is_ours = bitmap.len() * 8 == self.bit_count as usize;
        let is_valid = physical_offset >= self.valid_from();
        is_ours && is_valid && !bloom::is_set(bitmap, &self.positions)
    }
}
