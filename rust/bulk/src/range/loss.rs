//! Offsets of a range without a message. The reader reports them; the caller decides.

use std::fmt;

/// Offsets without a message, although they are in the range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The first offset.
    pub offset: i64,
    /// The number of offsets, at most.
    pub count: i64,
    /// The reason.
    pub kind: LossKind,
}

/// Why offsets have no message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossKind {
    /// The broker no longer has them and continues at a later offset.
    Moved,
    /// The broker skipped them without an error.
    Missing,
    /// The record is damaged, even when it is pulled alone; contains the reason.
    Damaged(String),
    /// The broker replies, but its next offset is not after this one.
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
