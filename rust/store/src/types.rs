//! Input and output types of the store.

use std::net::SocketAddr;
use std::ops::AddAssign;

use smallvec::SmallVec;
use thiserror::Error;

use crate::filter::MessageFilter;
use mq_statefile::FileError;

/// A message to append. Properties are the final stored text (`WAIT` already stripped).
#[derive(Debug, Clone, Copy)]
pub struct PutRequest<'a> {
    /// Topic name, at most 127 bytes.
    pub topic: &'a str,
    /// Queue of the topic, from 0.
    pub queue_id: i32,
    /// The user's flag, stored unchanged.
    pub flag: i32,
    /// RocketMQ's system flag; the store adds the IPv6 bits of the two hosts.
    pub sys_flag: i32,
    /// Time at which the producer created the message, milliseconds since the epoch.
    pub born_timestamp_ms: i64,
    /// The producer's address.
    pub born_host: SocketAddr,
    /// The broker's advertised address.
    pub store_host: SocketAddr,
    /// Number of failed consumptions.
    pub reconsume_times: i32,
    /// Physical offset of the half message; 0 if there is none.
    pub prepared_transaction_offset: i64,
    /// The stored body; compressed if `sys_flag` says so.
    pub body: &'a [u8],
    /// The properties text, at most 32767 bytes.
    pub properties: &'a [u8],
    /// False if the producer sent `WAIT=false`: acknowledge before the flush.
    pub wait_store_ok: bool,
    /// `DELAY` level; 0 for none. Higher levels are stored in SCHEDULE_TOPIC_XXXX.
    pub delay_level: i32,
    /// The store accepted this message before and moves it now. Limits that an operator may lower
    /// (`maxMessageSize`, `maxLmqConsumeQueueNum`) no longer apply.
    pub was_accepted: bool,
}

/// What a store does with its log. A role says which threads run; [`crate::Store::set_role`] is the
/// only way to change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Takes puts, and delivers delayed messages.
    #[default]
    Master,
    /// Refuses puts: the log grows only by bytes copied from a master. The store flushes,
    /// dispatches and deletes expired files, but delivers no delayed messages.
    Slave,
    /// Refuses puts and deletes nothing. Messages can be read, and offsets committed.
    ReadOnly,
}

impl Role {
    /// Why a store in this role refuses puts; None if it takes them.
    pub(crate) fn refusal(self) -> Option<&'static str> {
        match self {
            Self::Master => None,
            Self::Slave => Some("the store is a slave and takes messages from its master only"),
            Self::ReadOnly => Some("the store is read-only"),
        }
    }

    /// Whether the log may grow, and lose expired files.
    pub(crate) fn changes_log(self) -> bool {
        self != Self::ReadOnly
    }
}

/// RocketMQ's PutMessageStatus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PutStatus {
    Ok,
    FlushDiskTimeout,
    SlaveNotAvailable,
    FlushSlaveTimeout,
    CreateMappedFileFailed,
    MessageIllegal,
    PropertiesSizeExceeded,
    ServiceNotAvailable,
    OsPageCacheBusy,
    LmqConsumeQueueNumExceeded,
    UnknownError,
}

impl PutStatus {
    /// Whether the message is in the log, even if less durable than configured.
    pub fn is_stored(self) -> bool {
        match self {
            Self::Ok
            | Self::FlushDiskTimeout
            | Self::SlaveNotAvailable
            | Self::FlushSlaveTimeout => true,
            Self::CreateMappedFileFailed
            | Self::MessageIllegal
            | Self::PropertiesSizeExceeded
            | Self::ServiceNotAvailable
            | Self::OsPageCacheBusy
            | Self::LmqConsumeQueueNumExceeded
            | Self::UnknownError => false,
        }
    }
}

/// The result of a put of a message or a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutResult {
    /// Status of the put.
    pub status: PutStatus,
    /// Physical offset of the first record, bytes from the start of the log.
    pub physical_offset: i64,
    /// Total bytes of all records.
    pub size_bytes: i32,
    /// Queue offset of the first record.
    pub queue_offset: i64,
    /// Store time, milliseconds since the epoch.
    pub store_timestamp_ms: i64,
    /// Physical offset of each record; one entry for a single message.
    pub record_offsets: SmallVec<[i64; 1]>,
}

impl PutResult {
    /// A result for a put that stored nothing.
    pub fn refused(status: PutStatus) -> Self {
        Self {
            status,
            physical_offset: -1,
            size_bytes: 0,
            queue_offset: -1,
            store_timestamp_ms: 0,
            record_offsets: SmallVec::new(),
        }
    }
}

/// A put's result: final now, or final when its watermark passes.
#[derive(Debug)]
pub enum Put {
    /// The result is final.
    Done(PutResult),
    /// Appended. Pass the ticket to [`crate::Store::park`] or [`crate::Store::wait`] to learn when
    /// the message is as durable as configured. Until then it may be in memory only and invisible
    /// to readers. A status other than Ok is the result even if the ticket is reached.
    Parked(PutResult, Ticket),
}

/// How far a put must have come before it is acknowledged; in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watermark {
    /// It is in the log's files: it survives the end of the process.
    Written,
    /// It is on the disk: it survives the end of the machine.
    Flushed,
    /// As many slaves have it as configured: it survives the loss of the machine.
    Replicated,
    /// Both of these.
    FlushedAndReplicated,
}

impl Watermark {
    pub(crate) const COUNT: usize = Self::FlushedAndReplicated as usize + 1;

    /// Whether a flush moves this watermark.
    pub(crate) fn needs_flush(self) -> bool {
        match self {
            Self::Written | Self::Flushed | Self::FlushedAndReplicated => true,
            Self::Replicated => false,
        }
    }

    /// Whether slaves move this watermark.
    pub(crate) fn needs_slaves(self) -> bool {
        match self {
            Self::Written | Self::Flushed => false,
            Self::Replicated | Self::FlushedAndReplicated => true,
        }
    }
}

/// The condition for which a parked put waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Log offset that the watermark must reach.
    pub end_offset: i64,
    /// The watermark.
    pub needs: Watermark,
    /// Monotonic milliseconds after which the outcome is a timeout.
    pub deadline_ms: i64,
}

/// A parked put whose wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// As given to [`crate::Store::park`].
    pub token: u64,
    /// How the put ended.
    pub outcome: AckOutcome,
}

/// The outcome of a parked put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckOutcome {
    /// As durable as configured.
    Durable,
    /// The flush was not finished in time: FLUSH_DISK_TIMEOUT.
    FlushTimeout,
    /// Too few slaves had it in time: FLUSH_SLAVE_TIMEOUT.
    ReplicaTimeout,
    /// A write or fsync failed; the store acknowledges no more puts.
    Poisoned,
}

impl AckOutcome {
    /// The final status of a parked put with this status so far. Missing slaves count before a
    /// late flush, as in RocketMQ (`CommitLog.asyncPutMessage`).
    pub fn status(self, so_far: PutStatus) -> PutStatus {
        match self {
            Self::Durable => so_far,
            Self::FlushTimeout if so_far == PutStatus::SlaveNotAvailable => so_far,
            Self::FlushTimeout => PutStatus::FlushDiskTimeout,
            Self::ReplicaTimeout => PutStatus::FlushSlaveTimeout,
            Self::Poisoned => PutStatus::ServiceNotAvailable,
        }
    }
}

/// Whether a read may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadMode {
    /// Return [`WouldBlock`] instead of waiting for the disk.
    NoWait,
    /// Wait for the disk; only on threads that may block.
    Wait,
}

/// The bytes are not in memory. Try again with [`ReadMode::Wait`] on a thread that may block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WouldBlock;

/// A pull from one queue.
#[derive(Debug, Clone)]
pub struct GetRequest<'a> {
    /// Topic name.
    pub topic: &'a str,
    /// Queue of the topic.
    pub queue_id: i32,
    /// First queue offset.
    pub offset: i64,
    /// Most messages to return.
    pub max_count: i32,
    /// Filter for the messages.
    pub filter: &'a MessageFilter,
    /// Whether the read may wait for the disk.
    pub mode: ReadMode,
}

/// RocketMQ's GetMessageStatus; `as_str` is the remark of a pull reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum GetStatus {
    Found,
    NoMatchedMessage,
    MessageWasRemoving,
    OffsetFoundNull,
    OffsetOverflowBadly,
    OffsetOverflowOne,
    OffsetTooSmall,
    NoMatchedLogicQueue,
    NoMessageInQueue,
    OffsetReset,
}

impl GetStatus {
    /// RocketMQ's name of the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Found => "FOUND",
            Self::NoMatchedMessage => "NO_MATCHED_MESSAGE",
            Self::MessageWasRemoving => "MESSAGE_WAS_REMOVING",
            Self::OffsetFoundNull => "OFFSET_FOUND_NULL",
            Self::OffsetOverflowBadly => "OFFSET_OVERFLOW_BADLY",
            Self::OffsetOverflowOne => "OFFSET_OVERFLOW_ONE",
            Self::OffsetTooSmall => "OFFSET_TOO_SMALL",
            Self::NoMatchedLogicQueue => "NO_MATCHED_LOGIC_QUEUE",
            Self::NoMessageInQueue => "NO_MESSAGE_IN_QUEUE",
            Self::OffsetReset => "OFFSET_RESET",
        }
    }
}

/// The result of a pull. The records are appended to the caller's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetResult {
    /// RocketMQ's status.
    pub status: GetStatus,
    /// Offset of the next pull.
    pub next_begin_offset: i64,
    /// First readable queue offset.
    pub min_offset: i64,
    /// One past the last queue offset.
    pub max_offset: i64,
    /// Messages appended to the buffer.
    pub message_count: i32,
    /// The reader's lag is so large that a slave should serve it.
    pub suggest_slave: bool,
    /// Bytes of the log after the last scanned message; 0 if no message was scanned.
    pub behind_bytes: i64,
}

/// The result of a query by key. The records are appended to the caller's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryResult {
    /// Messages appended to the buffer.
    pub message_count: i32,
    /// End timestamp of the newest index file, milliseconds since the epoch.
    pub index_last_update_timestamp_ms: i64,
    /// End physical offset of the newest index file.
    pub index_last_update_physical_offset: i64,
}

/// A message became readable in a queue. With multi-dispatch there is one arrival per queue.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Topic of the queue.
    pub topic: &'a str,
    /// The queue.
    pub queue_id: i32,
    /// The queue's new maximum offset: the message's own offset + 1.
    pub max_offset: i64,
    /// The message's tags code.
    pub tags_code: i64,
}

/// A delayed message that was stored in its real topic.
#[derive(Debug, Clone, Copy)]
pub struct Delivered<'a> {
    /// Its queue of the schedule topic: its level - 1.
    pub queue_id: i32,
    /// Its real topic.
    pub topic: &'a str,
    /// Bytes of its new record.
    pub size_bytes: usize,
}

/// Numbers of files that a cleaning run deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// Files of the commit log.
    pub log_files: usize,
    /// Files of consume queues.
    pub queue_files: usize,
    /// Files of the index.
    pub index_files: usize,
}

impl AddAssign for Cleaned {
    fn add_assign(&mut self, more: Self) {
        self.log_files += more.log_files;
        self.queue_files += more.queue_files;
        self.index_files += more.index_files;
    }
}

/// The reason why the store cannot do what it was asked to. The text names the value and the
/// remedy.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process has the store open.
    #[error(
        "store {root} is locked by another broker; stop it, or read it with `mqstore ls {root}`"
    )]
    Locked {
        /// Root directory.
        root: String,
    },
    /// The directory does not look like a RocketMQ store of the configured sizes.
    #[error("store {root}: {what}")]
    UnknownLayout {
        /// Root directory.
        root: String,
        /// The actual and the expected state, and the remedy.
        what: String,
    },
    /// A state file is damaged, and its previous copy is damaged or missing.
    #[error(
        "{path}: {reason}, and no previous copy can be used; put a good copy there, \
         or begin without it: {command}"
    )]
    State {
        /// The file.
        path: String,
        /// The fault, with its byte position if that is known.
        reason: String,
        /// The command that lets the store start without the file.
        command: String,
    },
    /// A file operation failed.
    #[error("{path}: {source}")]
    Io {
        /// File or directory.
        path: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The disk is full, or a quota is used up. Nothing is lost, and the same write can be tried
    /// again when there is space. Never the result of a sync.
    #[error("{path}: {source}")]
    Full {
        /// File or directory.
        path: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// Damage other than a torn tail, and the policy is to refuse it.
    #[error("store {root} is damaged: {what}")]
    Damaged {
        /// Root directory.
        root: String,
        /// Position and kind of the damage.
        what: String,
    },
    /// A write or fsync failed earlier. The store only reads until it is reopened.
    #[error("store is poisoned: {0}; it acknowledges no more puts; repair the disk and restart")]
    Poisoned(String),
    /// The store's role, or its end, forbids it.
    #[error("{0}")]
    Forbidden(&'static str),
    /// A setting is out of its range.
    #[error("{key} = {value}: {what}")]
    Setting {
        /// RocketMQ's key.
        key: &'static str,
        /// The given value.
        value: String,
        /// The allowed range and unit.
        what: &'static str,
    },
}

impl From<FileError> for StoreError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Io { path, source } => Self::Io { path, source },
            FileError::Full { path, source } => Self::Full { path, source },
            FileError::Unusable {
                path,
                reason,
                command,
            } => Self::State {
                path,
                reason,
                command,
            },
            FileError::Name { name } => Self::Setting {
                key: "state file name",
                value: name,
                what: "a file name without a directory",
            },
        }
    }
}
