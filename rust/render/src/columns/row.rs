//! A record as a row, and the sources of its columns.

use crate::fields::Fields;
use crate::shapes::Span;
use mq_format::properties;

/// Rows per batch; few enough that they stay in the CPU cache.
pub(super) const ROWS_AT_ONCE: usize = 128;

/// A record that becomes a row.
pub(super) struct Row<'a> {
    pub record: Fields<'a>,
    /// The decompressed body, if the stored one is compressed.
    pub unpacked: Option<Vec<u8>>,
    /// The pairs of its properties.
    pub span: Span,
    /// Whether its properties are ASCII.
    pub is_ascii: bool,
}

impl Row<'_> {
    #[inline]
    pub fn body(&self) -> &[u8] {
        self.unpacked.as_deref().unwrap_or(self.record.body)
    }
}

/// Text or bytes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    Topic,
    Body,
    /// UNIQ_KEY, else the offset message id.
    MessageId,
    Property(&'static str),
    RawProperties,
    BornHost,
    StoreHost,
}

/// The source of a column's values.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    Int(fn(&Row<'_>) -> i32),
    Long(fn(&Row<'_>) -> i64),
    /// Milliseconds in the record, microseconds in the column.
    Time(fn(&Row<'_>) -> i64),
    Text(Text),
    /// All properties.
    Map,
}

impl Source {
    /// Whether the column needs the properties as pairs.
    pub fn is_of_pairs(self) -> bool {
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

pub(super) const SOURCES: [(&str, Source); 20] = [
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

/// Name and layout (int32, int64, timestamp, string, binary, map) of all columns.
pub fn column_layouts() -> impl Iterator<Item = (&'static str, &'static str)> {
    SOURCES
        .iter()
        .map(|(name, source)| (*name, source.layout()))
}
