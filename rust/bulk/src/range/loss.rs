//! Offsets of a range that brought no message. The reader reports them; the caller decides.

use std::fmt;

/// Offsets without a message, though the range has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The first offset.
    pub offset: i64,
    /// The number of offsets, at most.
    pub count: i64,
    /// Why.
    pub kind: LossKind,
}

/// Why offsets brought no message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossKind {
    /// The broker no longer has them, and moves the reader on.
    Moved,
    /// The broker passed over them without a word.
    Missing,
    /// The record is damaged, also when it is pulled alone; says what is wrong.
    Damaged(String),
    /// The broker answers, but names no later offset for the next pull.
    Stuck,
}

impl fmt::Display for Loss {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, count, .. } = self;
        if self.kind == LossKind::Moved {
            let next = offset + count;
            return write!(out, "offset {offset} is gone, the broker goes on at {next}");
        }
        write!(out, "the message at offset {offset} is damaged or lost: ")?;
        match &self.kind {
            LossKind::Damaged(error) => out.write_str(error),
            LossKind::Stuck => write!(
                out,
                "the broker names no later offset, {count} offsets are left out"
            ),
            LossKind::Missing | LossKind::Moved => {
                write!(out, "no message at {count} offsets from it on")
            }
        }
    }
}
