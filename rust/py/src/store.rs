//! Python door of the store engine: arguments in, one call with the GIL released, results out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::errors::raise;
use super::filter::filter;
use super::state::{aside, read_checked};
use super::store_arguments::{address, named_role, role_name, wall_ms};
use super::store_results::{GetResult, PutResult, QueryResult, cleaned, waited};
use super::store_settings::read_settings;
use mq_base::clock::SystemClock;
use mq_format::consume_queue::QueueEntry;
use mq_statefile::Aside;
use mq_store::{self as store, GetRequest, PutRequest, ReadMode};

/// An open store directory: one writer, any number of readers. Methods may be called from any
/// thread; each releases the GIL while it works.
#[pyclass(frozen, subclass, module = "mqcommon._core")]
pub struct Store {
    inner: Arc<store::Store>,
    process_id: u32,
}

impl Store {
    /// The engine, for the server that runs beside Python.
    #[allow(dead_code, reason = "py/server.rs uses it")]
    pub(crate) fn store(&self) -> Arc<store::Store> {
        Arc::clone(&self.inner)
    }

    /// Runs `work` with the GIL released; threads of the store do not survive a fork.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&store::Store) -> T + Send,
    ) -> PyResult<T> {
        if self.process_id != std::process::id() {
            return Err(PyRuntimeError::new_err(
                "this store was opened before a fork; open it in the child, or read it there \
                 with mqstore.open()",
            ));
        }
        Ok(py.detach(|| work(&self.inner)))
    }
}

#[pymethods]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of the Python signature"
)]
impl Store {
    /// Opens the store at `root`, recovering it if needed, and starts its threads.
    #[new]
    #[pyo3(signature = (root, settings, create))]
    fn new(
        py: Python<'_>,
        root: PathBuf,
        settings: &Bound<'_, PyDict>,
        create: bool,
    ) -> PyResult<Self> {
        let settings = read_settings(settings)?;
        let inner = py
            .detach(|| store::Store::open(&root, settings, SystemClock::shared(), create))
            .map_err(raise)?;
        Ok(Self {
            inner,
            process_id: std::process::id(),
        })
    }

    /// Appends one message (or a batch body) and waits until it is written or flushed, as
    /// configured.
    #[pyo3(signature = (topic, body, *, queue_id=0, flag=0, sys_flag=0, properties=b"" as &[u8],
        born_timestamp_ms=None, born_host="127.0.0.1:0", store_host="127.0.0.1:10911",
        reconsume_times=0, prepared_transaction_offset=0, wait_store_ok=true, delay_level=0,
        batch=false, was_accepted=false))]
    fn put(
        &self,
        py: Python<'_>,
        topic: &str,
        body: &[u8],
        queue_id: i32,
        flag: i32,
        sys_flag: i32,
        properties: &[u8],
        born_timestamp_ms: Option<i64>,
        born_host: &str,
        store_host: &str,
        reconsume_times: i32,
        prepared_transaction_offset: i64,
        wait_store_ok: bool,
        delay_level: i32,
        batch: bool,
        was_accepted: bool,
    ) -> PyResult<PutResult> {
        let request = PutRequest {
            topic,
            queue_id,
            flag,
            sys_flag,
            born_timestamp_ms: born_timestamp_ms.unwrap_or_else(wall_ms),
            born_host: address(born_host)?,
            store_host: address(store_host)?,
            reconsume_times,
            prepared_transaction_offset,
            body,
            properties,
            wait_store_ok,
            delay_level,
            was_accepted,
        };
        let result = self.run(py, |store| {
            let put = if batch {
                store.put_batch(&request)
            } else {
                store.put(&request)
            };
            store.wait(put)
        })?;
        Ok(PutResult::from(result))
    }

    /// Reads messages of one queue from an offset on.
    #[pyo3(signature = (
        topic, queue_id, offset, max_count=32, tag_codes=None, sql=None, retried=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn get(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_count: i32,
        tag_codes: Option<Vec<i32>>,
        sql: Option<&str>,
        retried: Option<HashMap<String, String>>,
    ) -> PyResult<GetResult> {
        let request = GetRequest {
            topic,
            queue_id,
            offset,
            max_count,
            filter: &filter(tag_codes, sql, retried)?,
            mode: ReadMode::Wait,
        };
        let mut body = Vec::new();
        let result = self.run(py, |store| store.get(&request, &mut body))?;
        Ok(GetResult::new(py, &waited(result)?, &body))
    }

    /// The record that starts at a physical offset, or None.
    fn get_at<'py>(
        &self,
        py: Python<'py>,
        physical_offset: i64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.run(py, |store| store.get_at(physical_offset, ReadMode::Wait))?;
        Ok(waited(found)?.map(|record| PyBytes::new(py, &record)))
    }

    /// Ends a transaction: "first", "repeated", "contrary" or "unknown".
    #[pyo3(signature = (number, commits, is_open=false))]
    fn end_transaction(
        &self,
        py: Python<'_>,
        number: i64,
        commits: bool,
        is_open: bool,
    ) -> PyResult<&'static str> {
        let ending = self.run(py, |store| {
            store.transactions().end(number, commits, is_open)
        })?;
        Ok(match ending {
            store::Ending::First => "first",
            store::Ending::Repeated => "repeated",
            store::Ending::Contrary => "contrary",
            store::Ending::Unknown => "unknown",
        })
    }

    /// Takes back an end that could not be stored.
    fn reopen_transaction(&self, py: Python<'_>, number: i64) -> PyResult<()> {
        self.run(py, |store| store.transactions().reopen(number))
    }

    /// Notes that a transaction is ended.
    fn note_ended(&self, py: Python<'_>, number: i64) -> PyResult<()> {
        self.run(py, |store| store.transactions().note_ended(number))
    }

    /// Whether a transaction is known to be ended.
    fn is_ended(&self, py: Python<'_>, number: i64) -> PyResult<bool> {
        self.run(py, |store| store.transactions().is_ended(number))
    }

    /// Says that every ended transaction from this number on was noted.
    fn know_transactions_from(&self, py: Python<'_>, number: i64) -> PyResult<()> {
        self.run(py, |store| store.transactions().know_from(number))
    }

    /// Records whose index key is `topic#key`, newest first.
    #[pyo3(signature = (topic, key, max_count=32, begin_ms=0, end_ms=i64::MAX))]
    fn query(
        &self,
        py: Python<'_>,
        topic: &str,
        key: &str,
        max_count: i32,
        begin_ms: i64,
        end_ms: i64,
    ) -> PyResult<QueryResult> {
        let (result, body) = self.run(py, |store| {
            let mut body = Vec::new();
            let result = store.query(topic, key, max_count, begin_ms, end_ms, &mut body);
            (result, body)
        })?;
        Ok(QueryResult::new(py, &result, &body))
    }

    /// First readable offset of a queue, 0 when unknown.
    fn min_offset(&self, py: Python<'_>, topic: &str, queue_id: i32) -> PyResult<i64> {
        self.run(py, |store| store.min_offset(topic, queue_id))
    }

    /// One past the last offset of a queue, 0 when unknown.
    fn max_offset(&self, py: Python<'_>, topic: &str, queue_id: i32) -> PyResult<i64> {
        self.run(py, |store| store.max_offset(topic, queue_id))
    }

    /// RocketMQ's offset of a queue by store time.
    fn offset_by_time(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        timestamp_ms: i64,
    ) -> PyResult<i64> {
        self.run(py, |store| {
            store.offset_by_time(topic, queue_id, timestamp_ms)
        })
    }

    /// Store time of the message at a queue offset in milliseconds, -1 if there is none.
    fn store_time_at(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        offset: i64,
    ) -> PyResult<i64> {
        self.run(py, |store| store.store_time_at(topic, queue_id, offset))
    }

    /// Physical offset, size and tags code of the entries of a queue from an offset on.
    fn entries(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        offset: i64,
        count: usize,
    ) -> PyResult<Vec<(i64, i32, i64)>> {
        let entries = self.run(py, |store| store.entries(topic, queue_id, offset, count))?;
        let entry = |entry: QueueEntry| (entry.physical_offset, entry.size_bytes, entry.tags_code);
        Ok(entries.into_iter().map(entry).collect())
    }

    /// Whether the message at a queue offset is older than the part of the log that RocketMQ
    /// assumes to be in memory.
    fn is_on_disk(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        offset: i64,
    ) -> PyResult<bool> {
        self.run(py, |store| store.is_on_disk(topic, queue_id, offset))
    }

    /// Store times of the first and the last message of the log, or None.
    fn store_time_range(&self, py: Python<'_>) -> PyResult<Option<(i64, i64)>> {
        self.run(py, store::Store::store_time_range)
    }

    /// Start of the log in bytes.
    fn min_physical_offset(&self, py: Python<'_>) -> PyResult<i64> {
        self.run(py, store::Store::min_physical_offset)
    }

    /// End of the log in bytes.
    fn max_physical_offset(&self, py: Python<'_>) -> PyResult<i64> {
        self.run(py, store::Store::max_physical_offset)
    }

    /// The committed offset of a group in a queue, or None.
    fn committed(
        &self,
        py: Python<'_>,
        group: &str,
        topic: &str,
        queue_id: i32,
    ) -> PyResult<Option<i64>> {
        self.run(py, |store| store.committed(group, topic, queue_id))
    }

    /// Commits an offset; persisted on the interval and at close. False if it is new and there are
    /// `entries_max` already.
    #[pyo3(signature = (group, topic, queue_id, offset, entries_max=None))]
    fn commit(
        &self,
        py: Python<'_>,
        group: &str,
        topic: &str,
        queue_id: i32,
        offset: i64,
        entries_max: Option<usize>,
    ) -> PyResult<bool> {
        let entries_max = entries_max.unwrap_or(usize::MAX);
        self.run(py, |store| {
            store.commit(group, topic, queue_id, offset, entries_max)
        })
    }

    /// Every committed offset: "topic@group" to queue to offset.
    fn committed_all(&self, py: Python<'_>) -> PyResult<BTreeMap<String, BTreeMap<i32, i64>>> {
        self.run(py, store::Store::committed_all)
    }

    /// The committed offsets of a group: topic to queue to offset.
    fn committed_of_group(
        &self,
        py: Python<'_>,
        group: &str,
    ) -> PyResult<BTreeMap<String, BTreeMap<i32, i64>>> {
        self.run(py, |store| store.committed_of_group(group))
    }

    /// Resets a group to another offset of a queue; its next pull is answered with that offset.
    fn reset_offset(
        &self,
        py: Python<'_>,
        group: &str,
        topic: &str,
        queue_id: i32,
        offset: i64,
    ) -> PyResult<()> {
        self.run(py, |store| {
            store.reset_offset(group, topic, queue_id, offset)
        })
    }

    /// The offset that answers the next pull after a reset, once, or None.
    fn take_reset(
        &self,
        py: Python<'_>,
        group: &str,
        topic: &str,
        queue_id: i32,
    ) -> PyResult<Option<GetResult>> {
        let moved = self.run(py, |store| store.take_reset(group, topic, queue_id))?;
        Ok(moved.map(|result| GetResult::new(py, &result, &[])))
    }

    /// Copies another group's offsets in a topic; returns the number of queues.
    fn clone_offsets(
        &self,
        py: Python<'_>,
        from_group: &str,
        to_group: &str,
        topic: &str,
    ) -> PyResult<usize> {
        self.run(py, |store| store.clone_offsets(from_group, to_group, topic))
    }

    /// Deletes the committed offsets of a group, in one topic or in all; returns the number of
    /// queues.
    #[pyo3(signature = (group, topic=None))]
    fn remove_group(&self, py: Python<'_>, group: &str, topic: Option<&str>) -> PyResult<usize> {
        self.run(py, |store| store.remove_group(group, topic))
    }

    /// Deletes the committed offset of a group in one queue; returns whether there was one.
    fn remove_offset(
        &self,
        py: Python<'_>,
        group: &str,
        topic: &str,
        queue_id: i32,
    ) -> PyResult<bool> {
        self.run(py, |store| store.remove_offset(group, topic, queue_id))
    }

    /// Writes `config/{name}` atomically and durably, keeping the previous copy as .bak.
    fn save_state(&self, py: Python<'_>, name: &str, text: &[u8]) -> PyResult<()> {
        self.run(py, |store| store.save_state(name, text))?
            .map_err(raise)
    }

    /// Reads `config/{name}`, or its .bak if it is missing or damaged, or None. Calls `check` with
    /// the bytes and returns its result; `check` raises if the content is not valid.
    #[pyo3(signature = (name, check=None))]
    fn load_state(
        &self,
        py: Python<'_>,
        name: &str,
        check: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let checked = |bytes: &[u8]| read_checked(check.as_ref(), bytes);
        self.run(py, |store| store.load_checked_state(name, checked))?
            .map_err(raise)
    }

    /// Whether the last `load_state` of `config/{name}` had to use its .bak.
    fn is_state_from_copy(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.run(py, |store| store.is_state_from_copy(name))
    }

    /// Keeps entries of a state file that cannot be used, (name, reason, text), and logs them.
    fn set_state_aside(
        &self,
        py: Python<'_>,
        name: &str,
        entries: Vec<(String, String, String)>,
    ) -> PyResult<()> {
        let entries: Vec<Aside> = entries.into_iter().map(aside).collect();
        self.run(py, |store| store.set_state_aside(name, &entries))
    }

    /// Every consume queue there is: topic to queue ids.
    fn queues(&self, py: Python<'_>) -> PyResult<BTreeMap<String, Vec<i32>>> {
        self.run(py, store::Store::queues)
    }

    /// Figures of the store by RocketMQ's runtime keys.
    fn runtime(&self, py: Python<'_>) -> PyResult<BTreeMap<String, String>> {
        self.run(py, store::Store::runtime)
    }

    /// Milliseconds since the current owner took the put lock, 0 when it is free.
    fn lock_held_ms(&self, py: Python<'_>) -> PyResult<i64> {
        self.run(py, store::Store::lock_held_ms)
    }

    /// The role: "master", "slave" or "read_only".
    fn role(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.run(py, |store| role_name(store.role()))
    }

    /// Changes the role.
    fn set_role(&self, py: Python<'_>, role: &str) -> PyResult<()> {
        let role = named_role(role)?;
        self.run(py, |store| store.set_role(role))?.map_err(raise)
    }

    /// Makes puts wait for slaves.
    #[pyo3(signature = (
        in_sync_replicas, slave_timeout_ms=3_000, fall_behind_max_bytes=268_435_456
    ))]
    fn set_replica_wait(
        &self,
        py: Python<'_>,
        in_sync_replicas: usize,
        slave_timeout_ms: i64,
        fall_behind_max_bytes: u64,
    ) -> PyResult<()> {
        let wait = store::SlaveWait {
            slaves: in_sync_replicas,
            timeout_ms: slave_timeout_ms,
            fall_behind_max_bytes,
        };
        self.run(py, |store| store.set_slave_wait(wait))?
            .map_err(raise)
    }

    /// Why the store accepts no more puts (poisoned, or the disk is full), or None.
    fn refusal(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.run(py, store::Store::refusal)
    }

    /// Threads that have failed: number of failures, and the reason if the last round failed.
    fn failures(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, (u64, Option<String>)>> {
        let all = self.run(py, store::Store::failures)?;
        Ok(all
            .into_iter()
            .map(|(name, failed)| (name, (failed.count, failed.now)))
            .collect())
    }

    /// Applies the cleaning settings of this mapping.
    fn set_cleaning(&self, py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<()> {
        let settings = read_settings(settings)?;
        self.run(py, |store| store.set_cleaning(&settings.cleaning))?
            .map_err(raise)
    }

    /// Deletes expired files of log, queues and index now, whatever `deleteWhen` says.
    fn clean(&self, py: Python<'_>) -> PyResult<(usize, usize, usize)> {
        self.run(py, store::Store::clean).map(cleaned)
    }

    /// Makes the next 20 runs of the cleaning thread ignore `deleteWhen`; the first starts now.
    fn clean_soon(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, store::Store::clean_soon)
    }

    /// Removes queue and index entries of deleted messages.
    fn clean_expired_queues(&self, py: Python<'_>) -> PyResult<(usize, usize, usize)> {
        self.run(py, store::Store::clean_expired_queues)
            .map(cleaned)
    }

    /// Deletes the messages of all other topics.
    fn clean_unused_topics(
        &self,
        py: Python<'_>,
        topics: HashSet<String>,
    ) -> PyResult<(usize, usize, usize)> {
        self.run(py, |store| store.clean_unused_topics(&topics))?
            .map(cleaned)
            .map_err(raise)
    }

    /// Deletes the messages of a topic.
    fn delete_topic(&self, py: Python<'_>, topic: &str) -> PyResult<(usize, usize, usize)> {
        self.run(py, |store| store.delete_topic(topic))?
            .map(cleaned)
            .map_err(raise)
    }

    /// The topics whose messages were deleted, as JSON for `take_deletions` of a slave.
    fn deletions(&self, py: Python<'_>) -> PyResult<String> {
        self.run(py, store::Store::deletions)
    }

    /// Deletes what the master of this slave deleted.
    fn take_deletions(&self, py: Python<'_>, of_master: &str) -> PyResult<(usize, usize, usize)> {
        self.run(py, |store| store.take_deletions(of_master))?
            .map(cleaned)
            .map_err(raise)
    }

    /// Flushes everything appended so far, log and derived files.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, store::Store::flush)?.map_err(raise)
    }

    /// Stops the threads, flushes and dispatches to the end, writes offsets and checkpoint.
    /// Closing twice is fine.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, store::Store::close)?.map_err(raise)
    }
}
