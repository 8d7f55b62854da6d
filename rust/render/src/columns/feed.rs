//! Adds records to columns.

use thiserror::Error;

use super::choice::Choice;
use super::row::{ROWS_AT_ONCE, Row};
use super::table::Columns;
use crate::fields::Fields;
use crate::json::Decompress;
use crate::shapes::Span;
use mq_format::message::{CheckCrc, RecordError};

/// Most bytes of a column: Arrow's offsets are int32.
const COLUMN_BYTES_MAX: usize = i32::MAX as usize;

/// Errors of adding rows.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ColumnError {
    /// The bytes are not a valid record.
    #[error("record at byte {at} of {size}: {error}")]
    Record {
        /// Position of the record in the input.
        at: usize,
        /// Length of the input, bytes.
        size: usize,
        /// The fault.
        error: RecordError,
    },
    /// A body cannot be decompressed; the text says why.
    #[error("{0}")]
    Body(String),
    /// A column exceeds 2 GiB.
    #[error("a batch holds more than 2 GiB of one column; take it earlier")]
    TooLarge,
}

impl Columns {
    /// Adds the records that pass `choice`, and returns their number. `records` holds whole
    /// records, one after the other. After an error, the records before the faulty one have been
    /// added.
    pub fn add(
        &mut self,
        records: &[u8],
        choice: &Choice,
        decompress: &mut Decompress<'_>,
    ) -> Result<usize, ColumnError> {
        let before = self.rows;
        let mut feed = Feed::new(self, choice);
        feed.add_all(records, decompress)?;
        drop(feed);
        Ok(self.rows - before)
    }
}

/// Collects a batch of rows before it fills the columns, so that each column processes the batch in
/// one tight loop.
pub struct Feed<'c, 'a> {
    columns: &'c mut Columns,
    choice: &'c Choice,
    rows: Vec<Row<'a>>,
}

impl<'c, 'a> Feed<'c, 'a> {
    /// Rows of the chosen records, for these columns.
    pub fn new(columns: &'c mut Columns, choice: &'c Choice) -> Self {
        Self {
            columns,
            choice,
            rows: Vec::with_capacity(ROWS_AT_ONCE),
        }
    }

    /// Adds the records that pass the choice.
    pub fn add_all(
        &mut self,
        records: &'a [u8],
        decompress: &mut Decompress<'_>,
    ) -> Result<(), ColumnError> {
        let mut at = 0;
        let mut outcome = Ok(());
        while at < records.len() && outcome.is_ok() {
            let rest = &records[at..];
            outcome = match Fields::parse(rest, CheckCrc::No) {
                Ok(record) => {
                    at += record.bytes.len();
                    self.add(record, decompress)
                }
                Err(error) => Err(ColumnError::Record {
                    at,
                    size: records.len(),
                    error,
                }),
            };
        }
        self.flush().and(outcome)
    }

    /// Adds a record if it passes the choice.
    #[inline]
    pub fn add(
        &mut self,
        record: Fields<'a>,
        decompress: &mut Decompress<'_>,
    ) -> Result<(), ColumnError> {
        if !self.choice.has(&record) {
            return Ok(());
        }
        let mut unpacked = None;
        if record.is_compressed() && self.columns.has_bodies {
            let body = decompress(record.body, record.sys_flag());
            unpacked = Some(body.map_err(ColumnError::Body)?);
        }
        let (span, is_ascii) = if self.columns.has_pairs {
            let (span, nature) = self.columns.shapes.split(record.properties);
            (span, nature.is_ascii)
        } else {
            (Span::default(), false)
        };
        self.rows.push(Row {
            record,
            unpacked,
            span,
            is_ascii,
        });
        if self.rows.len() == ROWS_AT_ONCE {
            self.flush()?;
        }
        Ok(())
    }

    /// Adds the collected rows to the columns.
    pub fn flush(&mut self) -> Result<(), ColumnError> {
        // Upper bound: an invalid UTF-8 byte becomes three bytes.
        let added = |row: &Row<'_>| 3 * row.record.bytes.len() + row.body().len();
        let added: usize = self.rows.iter().map(added).sum();
        let columns = &mut *self.columns;
        for column in &mut columns.columns {
            if column.fill.bytes() + added > COLUMN_BYTES_MAX {
                return Err(ColumnError::TooLarge);
            }
        }
        for column in &mut columns.columns {
            column.fill.add(&self.rows, &columns.shapes);
        }
        columns.rows += self.rows.len();
        columns.shapes.tidy();
        self.rows.clear();
        Ok(())
    }
}
