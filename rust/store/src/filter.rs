//! Which messages of a queue a reader wants.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use mq_format::bloom;
use mq_format::filter::Sql;
use mq_format::properties;

/// Of a compiled expression, for each byte of its text.
const SQL_BYTES: usize = 16;
/// Of an expression for a topic in a map, beside the name.
const ROW_BYTES: usize = 64;

/// Which messages of a queue a reader wants.
#[derive(Debug, Clone, Default)]
pub enum TagFilter {
    /// Every message (`*`).
    #[default]
    All,
    /// Those whose tags code, low 32 bits, is one of these Java string hashes.
    Codes(Arc<[i32]>),
    /// Those whose properties satisfy an expression.
    Sql(Arc<Sql>),
    /// The same, where bits of the extension tell of some messages that they do not.
    Marked(Arc<Sql>, Arc<Marks>),
    /// Of messages that come again, those that satisfy the expression for the topic they first came
    /// from, if it has one.
    Retried(Arc<HashMap<String, Arc<Sql>>>),
}

impl TagFilter {
    /// Whether a message with this tags code may pass (RocketMQ compares the low 32 bits).
    pub fn matches(&self, tags_code: i64) -> bool {
        match self {
            Self::All | Self::Sql(_) | Self::Marked(..) | Self::Retried(_) => true,
            #[expect(clippy::cast_possible_truncation, reason = "RocketMQ compares as int")]
            Self::Codes(codes) => codes.contains(&(tags_code as i32)),
        }
    }

    /// About what it takes in memory, bytes, when nobody shares it.
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

    /// Whether properties decide, so that every message has to be read.
    pub fn reads_properties(&self) -> bool {
        self.is_sql() || matches!(self, Self::Retried(_))
    }

    /// Whether it is one expression.
    pub fn is_sql(&self) -> bool {
        matches!(self, Self::Sql(_) | Self::Marked(..))
    }

    /// Whether a message with these properties passes.
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

    /// Whether a message with this bitmap cannot satisfy the expression. Asked after the bitmap was
    /// read: whoever retires does so before other bits are written.
    pub(crate) fn rule_out(&self, bitmap: &[u8], physical_offset: i64) -> bool {
        let is_ours = bitmap.len() * 8 == self.bit_count as usize;
        let is_believed = physical_offset >= self.since();
        is_ours && is_believed && !bloom::is_set(bitmap, &self.positions)
    }
}
