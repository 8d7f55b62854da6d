//! Columns of the log, built by background threads.

use std::sync::Arc;

use mq_render::{Choice, Collected, Columns, Feed};

use crate::pipeline::{ChunkRecords, Work};

/// Builds the columns of chunks of the log.
pub struct ColumnWork {
    columns: Columns,
    choice: Arc<Choice>,
}

/// The columns of a chunk, or its records if Python must build them.
#[derive(Debug)]
pub enum ColumnChunk {
    /// Columns.
    Columns(Collected),
    /// Records of which one body must be decompressed, or which exceed a column's limit.
    Records(Vec<u8>),
}

impl ColumnWork {
    /// Builds rows of the records that pass `choice`.
    pub fn new(columns: Columns, choice: Arc<Choice>) -> Self {
        Self { columns, choice }
    }
}

impl Work for ColumnWork {
    type Output = ColumnChunk;

    fn process(&mut self, records: &mut ChunkRecords<'_>) -> ColumnChunk {
        let mut feed = Feed::new(&mut self.columns, &self.choice);
        let mut outcome = Ok(());
        records.visit(|record| {
            if outcome.is_ok() {
                outcome = feed.add(record, &mut |_, _| Err(String::new()));
            }
        });
        outcome = outcome.and_then(|()| feed.flush());
        drop(feed);
        let collected = self.columns.take();
        match outcome {
            Ok(()) => ColumnChunk::Columns(collected),
            Err(_) => ColumnChunk::Records(records.bytes().to_vec()),
        }
    }
}
