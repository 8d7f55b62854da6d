//! Messages that a peer may not send.

use thiserror::Error;

/// Why a connection ends: the peer said something that cannot be true, or nothing for too long. The
/// text names the numbers of both sides.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// A slave reports a negative offset.
    #[error("it reports the offset {0}; a log begins at 0 or later")]
    Negative(i64),
    /// The peer speaks TLS, and this side does not.
    #[error("it uses TLS, and haTlsEnable is not set here; set it on both brokers, or on none")]
    Tls,
    /// A slave starts beyond the end of the master's log.
    #[error(
        "its log ends at {asked}, beyond the master's end {end}: the master lost messages, or the \
         slave belongs to another master; compare the logs before either is used on"
    )]
    Ahead {
        /// The slave's end.
        asked: u64,
        /// The master's end.
        end: u64,
    },
    /// A slave acknowledges bytes that it was not sent.
    #[error("it acknowledges {acked}, but was sent bytes up to {sent} only")]
    NotSent {
        /// The acknowledged offset.
        acked: u64,
        /// The end of the sent bytes.
        sent: u64,
    },
    /// A slave's acknowledgement falls.
    #[error("it acknowledges {acked} after {before}")]
    Back {
        /// The acknowledged offset.
        acked: u64,
        /// The acknowledgement before.
        before: u64,
    },
    /// The peer said nothing, or did not finish a message.
    #[error("nothing complete came from it for {0} ms")]
    Silent(i64),
    /// A frame is for another offset than the next.
    #[error("it sent bytes for the offset {got}, expected {expected}")]
    Position {
        /// Offset in the frame.
        got: i64,
        /// Next offset.
        expected: u64,
    },
    /// The first frame for an empty log is not for the start of a file.
    #[error(
        "it begins at the offset {got}, which is no start of a file of {file_bytes} bytes: \
         mappedFileSizeCommitLog differs between master and slave"
    )]
    NoFileStart {
        /// Offset in the frame.
        got: i64,
        /// Length of the slave's files.
        file_bytes: u64,
    },
    /// A frame has a negative or too large length.
    #[error("it sent a frame of {0} bytes")]
    Length(i32),
    /// The log that it sends has no record where one must begin.
    #[error("there is no record at the offset {offset} of the log that it sends: {why}")]
    NoRecord {
        /// Offset of the record.
        offset: u64,
        /// The fault at this offset.
        why: &'static str,
    },
    /// The same offset has different bytes on both sides.
    #[error("the two logs differ from the offset {0} on")]
    Diverged(u64),
    /// The master's log begins after the end of this one, with an older message.
    #[error(
        "its log begins at {start} with a message that was stored {} s before the last one of this \
         log, which ends at {end}: this log is of another master, or the clock was set back, and \
         nothing was copied. Correct haMasterAddress or brokerName; to follow this master, stop \
         this broker, move its store away and start it again",
        older_ms / 1_000
    )]
    Foreign {
        /// First offset of the master's log.
        start: u64,
        /// The slave's end.
        end: u64,
        /// How much older the message is.
        older_ms: i64,
    },
    /// The slave's own log failed.
    #[error("{0}")]
    OwnLog(String),
}
