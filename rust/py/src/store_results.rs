//! Results of the store engine as Python objects.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use mq_store::{self as store, PutStatus, WouldBlock};

/// Place and outcome of a stored message or batch.
#[pyclass(frozen, get_all, module = "mqcommon._core")]
pub struct PutResult {
    /// RocketMQ's name of the outcome; "PUT_OK" for success.
    status: &'static str,
    /// Physical offset of the first record, bytes from the start of the log.
    physical_offset: i64,
    /// Bytes of all records together.
    size_bytes: i32,
    /// Queue offset of the first record.
    queue_offset: i64,
    /// When it was stored, milliseconds since the epoch.
    store_timestamp_ms: i64,
    /// Physical offset of each record; one for a single message.
    record_offsets: Vec<i64>,
}

impl From<store::PutResult> for PutResult {
    fn from(result: store::PutResult) -> Self {
        Self {
            status: status_name(result.status),
            physical_offset: result.physical_offset,
            size_bytes: result.size_bytes,
            queue_offset: result.queue_offset,
            store_timestamp_ms: result.store_timestamp_ms,
            record_offsets: result.record_offsets.into_vec(),
        }
    }
}

#[pymethods]
impl PutResult {
    fn __repr__(&self) -> String {
        format!(
            "<PutResult {} physical_offset={} queue_offset={} size_bytes={}>",
            self.status, self.physical_offset, self.queue_offset, self.size_bytes
        )
    }
}

/// RocketMQ 4.9's spelling.
fn status_name(status: PutStatus) -> &'static str {
    match status {
        PutStatus::Ok => "PUT_OK",
        PutStatus::FlushDiskTimeout => "FLUSH_DISK_TIMEOUT",
        PutStatus::SlaveNotAvailable => "SLAVE_NOT_AVAILABLE",
        PutStatus::FlushSlaveTimeout => "FLUSH_SLAVE_TIMEOUT",
        PutStatus::CreateMappedFileFailed => "CREATE_MAPEDFILE_FAILED",
        PutStatus::MessageIllegal => "MESSAGE_ILLEGAL",
        PutStatus::PropertiesSizeExceeded => "PROPERTIES_SIZE_EXCEEDED",
        PutStatus::ServiceNotAvailable => "SERVICE_NOT_AVAILABLE",
        PutStatus::OsPageCacheBusy => "OS_PAGECACHE_BUSY",
        PutStatus::LmqConsumeQueueNumExceeded => "LMQ_CONSUME_QUEUE_NUM_EXCEEDED",
        PutStatus::UnknownError => "UNKNOWN_ERROR",
    }
}

/// The result of a read of a queue.
#[pyclass(frozen, get_all, module = "mqcommon._core")]
pub struct GetResult {
    /// RocketMQ's status, "FOUND" when there are messages.
    status: &'static str,
    /// Queue offset for the next read.
    next_begin_offset: i64,
    /// First readable offset of the queue.
    min_offset: i64,
    /// One past the last offset of the queue.
    max_offset: i64,
    /// Messages in `body`.
    message_count: i32,
    /// Whether the reader's backlog is so large that a slave should serve it.
    suggest_slave: bool,
    /// Bytes of the log after the last message that was checked.
    behind_bytes: i64,
    /// Whole records one after another; see `decode_messages`.
    body: Py<PyBytes>,
}

impl GetResult {
    pub(super) fn new(py: Python<'_>, result: &store::GetResult, body: &[u8]) -> Self {
        Self {
            status: result.status.as_str(),
            next_begin_offset: result.next_begin_offset,
            min_offset: result.min_offset,
            max_offset: result.max_offset,
            message_count: result.message_count,
            suggest_slave: result.suggest_slave,
            behind_bytes: result.behind_bytes,
            body: PyBytes::new(py, body).unbind(),
        }
    }
}

/// The result of a query by key.
#[pyclass(frozen, get_all, module = "mqcommon._core")]
pub struct QueryResult {
    /// Messages in `body`.
    message_count: i32,
    /// End timestamp of the newest index file, milliseconds since the epoch.
    index_last_update_timestamp_ms: i64,
    /// End physical offset of the newest index file.
    index_last_update_physical_offset: i64,
    /// Whole records one after another; see `decode_messages`.
    body: Py<PyBytes>,
}

impl QueryResult {
    pub(super) fn new(py: Python<'_>, result: &store::QueryResult, body: &[u8]) -> Self {
        Self {
            message_count: result.message_count,
            index_last_update_timestamp_ms: result.index_last_update_timestamp_ms,
            index_last_update_physical_offset: result.index_last_update_physical_offset,
            body: PyBytes::new(py, body).unbind(),
        }
    }
}

/// Files of the log, of consume queues and of the index.
pub(super) fn cleaned(count: store::Cleaned) -> (usize, usize, usize) {
    (count.log_files, count.queue_files, count.index_files)
}

/// A read that may wait never answers that it would block.
pub(super) fn waited<T>(result: Result<T, WouldBlock>) -> PyResult<T> {
    result.map_err(|_| PyRuntimeError::new_err("the store refused to wait for the disk"))
}
