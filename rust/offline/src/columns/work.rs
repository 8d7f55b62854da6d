//! Columns of the log, built ahead.

use std::sync::Arc;

use super::choice::Choice;
use super::feed::Feed;
use super::table::{Collected, Columns};
use crate::ahead::{Part, Work};

/// Builds columns of chunks of the log.
pub struct ColumnWork {
    columns: Columns,
    choice: Arc<Choice>,
}

/// A chunk's columns, or its records where somebody else must build them.
#[derive(Debug)]
pub enum ColumnsMade {
    /// Columns.
    Columns(Collected),
    /// Records: a body is to be decompressed, or they are too large.
    Records(Vec<u8>),
}

impl ColumnWork {
    /// Rows of the records that are chosen.
    pub fn new(columns: Columns, choice: Arc<Choice>) -> Self {
        Self { columns, choice }
    }
}

impl Work for ColumnWork {
    type Made = ColumnsMade;

    fn make(&mut self, part: &mut Part<'_>) -> ColumnsMade {
        let mut feed = Feed::new(&mut self.columns, &self.choice);
        let mut outcome = Ok(());
        part.visit(|record| {
            if outcome.is_ok() {
                outcome = feed.add(record, &mut |_, _| Err(String::new()));
            }
        });
        outcome = outcome.and_then(|()| feed.flush());
        drop(feed);
        let collected = self.columns.take();
        match outcome {
            Ok(()) => ColumnsMade::Columns(collected),
            Err(_) => ColumnsMade::Records(part.bytes().to_vec()),
        }
    }
}
