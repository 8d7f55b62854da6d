//! Records to column buffers in Arrow's layout: what pandas and Spark read, with nothing done
//! per row in Python.

use std::collections::HashSet;

use thiserror::Error;

mod feed;
mod fill;
mod texts;
mod work;

pub use self::fill::Buffers;
use self::fill::Fill;
pub use self::texts::TextBuffers;
pub use self::work::{ColumnWork, ColumnsMade};
use super::fields::Fields;
use super::json::Decompress;
use super::shapes::{Shapes, Span};
use mq_format::message::RecordError;
use mq_format::properties;

/// A record that becomes a row.
struct Row<'a> {
    record: Fields<'a>,
    /// As sent, where that is not how it is stored.
    unpacked: Option<Vec<u8>>,
    /// Where its properties are among the builder's pairs.
    span: Span,
    /// Whether its properties are ASCII.
    is_ascii: bool,
}

impl Row<'_> {
    #[inline]
    fn body(&self) -> &[u8] {
        self.unpacked.as_deref().unwrap_or(self.record.body)
    }
}

/// Text or bytes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    Topic,
    Body,
    /// UNIQ_KEY, else the offset message id.
    MessageId,
    Property(&'static str),
    RawProperties,
    BornHost,
    StoreHost,
}

/// What a column is made of.
#[derive(Debug, Clone, Copy)]
enum Source {
    Int(fn(&Row<'_>) -> i32),
    Long(fn(&Row<'_>) -> i64),
    /// Milliseconds, which become microseconds.
    Time(fn(&Row<'_>) -> i64),
    Text(Text),
    /// All properties.
    Map,
}

impl Source {
    /// Whether it needs the properties, split.
    fn is_of_pairs(self) -> bool {
        matches!(
            self,
            Self::Map | Self::Text(Text::MessageId | Text::Property(_))
        )
    }

    fn layout(self) -> &'static str {
        match self {
            Self::Int(_) => "int32",
            Self::Long(_) => "int64",
            Self::Time(_) => "timestamp",
            Self::Text(Text::Body) => "binary",
            Self::Text(_) => "string",
            Self::Map => "map",
        }
    }
}

const SOURCES: [(&str, Source); 20] = [
    ("topic", Source::Text(Text::Topic)),
    ("queue_id", Source::Int(|row| row.record.queue_id())),
    (
        "queue_offset",
        Source::Long(|row| row.record.queue_offset()),
    ),
    (
        "commit_log_offset",
        Source::Long(|row| row.record.physical_offset()),
    ),
    ("msg_id", Source::Text(Text::MessageId)),
    ("tags", Source::Text(Text::Property(properties::TAGS))),
    ("keys", Source::Text(Text::Property(properties::KEYS))),
    ("body", Source::Text(Text::Body)),
    ("properties", Source::Map),
    ("raw_properties", Source::Text(Text::RawProperties)),
    ("flag", Source::Int(|row| row.record.flag())),
    ("sys_flag", Source::Int(|row| row.record.sys_flag())),
    (
        "born_timestamp",
        Source::Time(|row| row.record.born_timestamp_ms()),
    ),
    ("born_host", Source::Text(Text::BornHost)),
    (
        "store_timestamp",
        Source::Time(|row| row.record.store_timestamp_ms()),
    ),
    ("store_host", Source::Text(Text::StoreHost)),
    (
        "reconsume_times",
        Source::Int(|row| row.record.reconsume_times()),
    ),
    (
        "prepared_transaction_offset",
        Source::Long(|row| row.record.prepared_transaction_offset()),
    ),
    (
        "store_size",
        Source::Int(|row| row.record.bytes.len() as i32),
    ),
    (
        "body_crc",
        Source::Int(|row| row.record.stored_crc().cast_signed()),
    ),
];

/// Every column there is: its name and layout (int32, int64, timestamp, string, binary, map).
pub fn column_layouts() -> impl Iterator<Item = (&'static str, &'static str)> {
    SOURCES
        .iter()
        .map(|(name, source)| (*name, source.layout()))
}

/// What can go wrong while rows are added.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ColumnError {
    /// Bytes that are no record.
    #[error("record at byte {at} of {size}: {error}")]
    Record {
        /// Where it should start.
        at: usize,
        /// How many bytes there are.
        size: usize,
        /// What is wrong.
        error: RecordError,
    },
    /// A body does not decompress, and why.
    #[error("{0}")]
    Body(String),
    /// Arrow's offsets have 32 bits.
    #[error("a batch holds more than 2 GiB of one column; take it earlier")]
    TooLarge,
}

/// Which records become rows.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Only this topic.
    pub topic: Option<String>,
    /// Only these queues.
    pub queue_ids: Option<HashSet<i32>>,
    /// Only these tags.
    pub tags: Option<HashSet<String>>,
    /// From this offset in the queue on.
    pub first_queue_offset: i64,
    /// Before this offset in the queue.
    pub end_queue_offset: i64,
    /// Before this place in the log.
    pub end_physical_offset: i64,
}

impl Default for Choice {
    /// All of them.
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
    fn has(&self, record: &Fields<'_>) -> bool {
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

/// Collects records as columns.
#[derive(Debug, Default)]
pub struct Columns {
    columns: Vec<Column>,
    shapes: Shapes,
    has_pairs: bool,
    has_bodies: bool,
    rows: usize,
}

#[derive(Debug)]
struct Column {
    name: &'static str,
    fill: Fill,
}

/// What was collected.
#[derive(Debug)]
pub struct Collected {
    /// How many rows.
    pub rows: usize,
    /// Each column's name and memory.
    pub columns: Vec<(&'static str, Buffers)>,
}

impl Columns {
    /// Columns by name; the name of one that there is not is given back.
    pub fn new(names: &[String]) -> Result<Self, String> {
        let mut made = Self::default();
        for wanted in names {
            let known = SOURCES.iter().find(|(name, _)| name == wanted);
            let (name, source) = *known.ok_or_else(|| wanted.clone())?;
            made.has_pairs |= source.is_of_pairs();
            made.has_bodies |= matches!(source, Source::Text(Text::Body));
            let fill = Fill::new(source);
            if made.columns.iter().all(|column| column.name != name) {
                made.columns.push(Column { name, fill });
            }
        }
        Ok(made)
    }

    /// Rows collected.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes collected, about.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(|column| column.fill.bytes()).sum()
    }

    /// Adds the records that are chosen, which are whole and one after the other; how many they
    /// were. After an error those before the place of the error have been added.
    pub fn add(
        &mut self,
        records: &[u8],
        choice: &Choice,
        decompress: &mut Decompress<'_>,
    ) -> Result<usize, ColumnError> {
        let before = self.rows;
        let mut feed = feed::Feed::new(self, choice);
        feed.add_all(records, decompress)?;
        drop(feed);
        Ok(self.rows - before)
    }

    /// What was collected; nothing is left.
    pub fn take(&mut self) -> Collected {
        let columns = self.columns.iter_mut();
        let taken = Collected {
            rows: self.rows,
            columns: columns
                .map(|column| (column.name, column.fill.take()))
                .collect(),
        };
        self.rows = 0;
        taken
    }
}
