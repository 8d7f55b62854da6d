//! The columns of a batch.

use super::fill::{Buffers, Fill};
use super::row::{SOURCES, Source, Text};
use crate::shapes::Shapes;

/// Collects records as columns.
#[derive(Debug, Default)]
pub struct Columns {
    pub(super) columns: Vec<Column>,
    pub(super) shapes: Shapes,
    pub(super) has_pairs: bool,
    pub(super) has_bodies: bool,
    pub(super) rows: usize,
}

#[derive(Debug)]
pub(super) struct Column {
    name: &'static str,
    pub fill: Fill,
}

/// The rows collected so far.
#[derive(Debug)]
pub struct Collected {
    /// Number of rows.
    pub rows: usize,
    /// Name and buffers of each column.
    pub columns: Vec<(&'static str, Buffers)>,
}

impl Columns {
    /// Creates columns by name; the error is the first unknown name.
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

    /// Number of collected rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Approximate bytes of the collected rows.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(|column| column.fill.bytes()).sum()
    }

    /// Returns the collected rows and starts again with none.
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
