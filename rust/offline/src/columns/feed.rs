//! Records on their way into columns.

use super::{Choice, ColumnError, Columns, Row};
use crate::fields::Fields;
use crate::json::Decompress;
use crate::shapes::Span;
use mq_format::message::CheckCrc;

/// Rows that columns take at once: what they look at stays in the cache.
pub(super) const ROWS_AT_ONCE: usize = 128;
/// No column grows longer: Arrow's offsets are int32.
const COLUMN_BYTES_MAX: usize = i32::MAX as usize;

/// Gathers rows and hands them to the columns, some at a time; each column then runs through
/// them in one loop.
pub(super) struct Feed<'c, 'a> {
    columns: &'c mut Columns,
    choice: &'c Choice,
    rows: Vec<Row<'a>>,
}

impl<'c, 'a> Feed<'c, 'a> {
    pub(super) fn new(columns: &'c mut Columns, choice: &'c Choice) -> Self {
        Self {
            columns,
            choice,
            rows: Vec::with_capacity(ROWS_AT_ONCE),
        }
    }

    /// Adds the chosen ones of whole records.
    pub(super) fn add_all(
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

    /// Adds a record if it is chosen.
    #[inline]
    pub(super) fn add(
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

    /// Fills the columns with what was gathered.
    pub(super) fn flush(&mut self) -> Result<(), ColumnError> {
        // A byte that is not UTF-8 becomes three.
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
