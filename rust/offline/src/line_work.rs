//! JSON lines of the log, rendered by background threads.

use super::pipeline::{ChunkRecords, Work};
use mq_render::{BodyText, Lines, Sink};

/// Renders chunks of the log.
pub struct LineWork {
    lines: Lines,
}

/// The lines of a chunk, or its records if Python must render them.
#[derive(Debug)]
pub enum LineChunk {
    /// Lines.
    Lines(Sink),
    /// Records of which one body must be decompressed.
    Records(Vec<u8>),
}

impl LineWork {
    /// Renders lines with this encoding of bodies.
    pub fn new(body: BodyText) -> Self {
        Self {
            lines: Lines::new(body),
        }
    }
}

impl Work for LineWork {
    type Output = LineChunk;

    fn process(&mut self, records: &mut ChunkRecords<'_>) -> LineChunk {
        let mut must_decompress = false;
        let lines = &mut self.lines;
        records.visit(|record| {
            must_decompress |= lines.must_decompress(&record);
            lines.add(&record, &mut |_, _| Err(String::new()));
        });
        let rendered = self.lines.take();
        if must_decompress {
            return LineChunk::Records(records.bytes().to_vec());
        }
        LineChunk::Lines(rendered)
    }
}
