//! Python door of the server: start, hand-off, publication, requests to clients, stop.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::create_exception;
use pyo3::exceptions::{
    PyBlockingIOError, PyConnectionError, PyException, PyOSError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping};

use super::mappings::seconds;
use super::request::{Event, Request};
use super::server_settings as convert;
use super::signals::check_interval;
use super::store::Store;
use super::{acl, tls};
use mq_base::clock::SystemClock;
use mq_server::{self as server, Admission, Core, NotAsked, Popped, QueueName};

create_exception!(
    mqcommon._core,
    ServerStopped,
    PyException,
    "The server was stopped: no request will come any more."
);

/// Name of the queue of connection events.
const EVENTS: &str = "events";

/// Connection, opaque, and the frame if there is one.
type ReplyTuple = (u64, i32, Option<Py<PyBytes>>);
/// A queue as Python passes it: topic, broker name, queue id.
type QueueTuple = (String, String, i32);
/// Kind, topic, group, queue; requests, messages, bytes, milliseconds of waiting, backlog in bytes.
type TrafficRow = (&'static str, String, String, i32, [u64; 5]);

/// One listening server: a broker's or a NameServer's sockets.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct Server {
    core: Arc<Core>,
    admission: Arc<Admission>,
    running: Mutex<Option<server::Server>>,
    process_id: u32,
}

impl Server {
    /// A forked child has no copy of the threads; it gets an error instead of a hang.
    fn check_process(&self) -> PyResult<()> {
        if self.process_id == std::process::id() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(
            "this server was started before a fork; start one in the child",
        ))
    }

    fn peer(&self, connection: u64) -> Option<Arc<server::Peer>> {
        self.core.clients.peers.get(connection)
    }
}

/// Waits in slices with the GIL released, so that Ctrl-C ends the wait.
fn wait<T: Send>(
    py: Python<'_>,
    timeout: Duration,
    mut pop: impl FnMut(Duration) -> Popped<T> + Send,
) -> PyResult<Option<T>> {
    let slice = check_interval();
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match py.detach(|| pop(left.min(slice))) {
            Popped::Item(item) => return Ok(Some(item)),
            Popped::Closed => return Err(ServerStopped::new_err("the server was stopped")),
            Popped::Timeout => py.check_signals()?,
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
    }
}

fn stale(error: server::StaleVersion) -> PyErr {
    PyValueError::new_err(error.to_string())
}

#[pymethods]
impl Server {
    /// A server that does not listen yet.
    #[new]
    #[pyo3(signature = (settings, store=None))]
    fn new(settings: &Bound<'_, PyMapping>, store: Option<PyRef<'_, Store>>) -> PyResult<Self> {
        let settings = convert::settings(settings)?;
        let store = store.map(|store| store.store());
        let core = Core::new(settings, store, SystemClock::shared());
        let core = core.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self {
            admission: Arc::new(Admission::new(&core.settings)),
            core,
            running: Mutex::new(None),
            process_id: std::process::id(),
        })
    }

    /// Binds and listens; returns the ports. Without `accept` connections wait in the kernel's
    /// queue.
    #[pyo3(signature = (accept=true))]
    fn start(&self, py: Python<'_>, accept: bool) -> PyResult<(u16, Option<u16>)> {
        self.check_process()?;
        if !accept {
            self.admission.gate.close();
        }
        let mut running = self.running.lock();
        if running.is_some() {
            return Err(PyRuntimeError::new_err(
                "this server has been started already",
            ));
        }
        let parts = (Arc::clone(&self.core), Arc::clone(&self.admission));
        let start = || server::Server::start(parts.0, parts.1);
        let started = py.detach(start).map_err(|error| {
            let settings = &self.core.settings;
            let address = format!("{}:{}", settings.host, settings.port);
            match error.raw_os_error() {
                Some(errno) => PyOSError::new_err((errno, format!("{error} ({address})"))),
                None => PyOSError::new_err(format!("{error} ({address})")),
            }
        })?;
        let ports = (started.port, started.fast_port);
        *running = Some(started);
        Ok(ports)
    }

    /// Accepts the connections that wait, and all later ones.
    fn accept(&self) {
        self.admission.gate.open();
    }

    /// The next request of a family, or event; None after `timeout` seconds.
    fn next(&self, py: Python<'_>, family: &str, timeout: f64) -> PyResult<Option<Py<PyAny>>> {
        self.check_process()?;
        let timeout = seconds(timeout);
        if family == EVENTS {
            let event = wait(py, timeout, |slice| self.core.clients.events.pop(slice))?;
            let event = event
                .map(|event| Bound::new(py, Event::from(event)))
                .transpose()?;
            return Ok(event.map(|event| event.into_any().unbind()));
        }
        let index = self.core.handoff.index(family);
        let index = index.ok_or_else(|| PyValueError::new_err(format!("no family {family:?}")))?;
        let job = wait(py, timeout, |slice| self.core.next_job(index, slice))?;
        let request = job
            .map(|job| Bound::new(py, Request::new(job)))
            .transpose()?;
        Ok(request.map(|request| request.into_any().unbind()))
    }

    /// Publishes changes of one table.
    #[pyo3(signature = (table, version, rows, replace=false))]
    fn publish(
        &self,
        table: &str,
        version: i64,
        rows: &Bound<'_, PyMapping>,
        replace: bool,
    ) -> PyResult<()> {
        let tables = &self.core.state.tables;
        match table {
            "broker" => tables.broker.publish(version, convert::broker(rows)?),
            "acl" => tables.acl.rules.publish(version, acl::rules(rows)?),
            "topics" => {
                let changes = convert::changes(rows, convert::topic)?;
                tables.topics.publish(version, changes, replace)
            }
            "groups" => {
                let changes = convert::changes(rows, convert::group)?;
                tables.groups.publish(version, changes, replace)
            }
            "subscriptions" => {
                let changes = convert::changes(rows, convert::subscriptions)?;
                tables.subscriptions.publish(version, changes, replace)
            }
            "filters" => {
                let changes = convert::changes(rows, convert::filters)?;
                let store = self.core.state.store.as_ref();
                let end = || store.map_or(i64::MAX, |store| store.max_physical_offset());
                tables.filters.publish(version, changes, replace, end)
            }
            "heartbeats" => {
                let connections = convert::connections(rows)?;
                self.core.forget_heartbeats(&connections, replace);
                Ok(())
            }
            "tls" => return tls::show(&self.admission.tls, rows),
            "answers" => {
                let changes = convert::changes(rows, |_, body| body.extract::<Vec<u8>>())?;
                tables.answers.publish(version, changes, replace)
            }
            _ => return Err(PyValueError::new_err(format!("no table {table:?}"))),
        }
        .map_err(stale)
    }

    /// Sends a one-way request to a client; False if the connection is gone.
    fn send(&self, connection: u64, frame: &[u8]) -> PyResult<bool> {
        self.check_process()?;
        Ok(self.peer(connection).is_some_and(|peer| peer.send(frame)))
    }

    /// Sends a request to a client without waiting, and gives the opaque of its reply.
    fn ask(&self, connection: u64, frame: &[u8]) -> PyResult<i32> {
        self.check_process()?;
        let gone = || PyConnectionError::new_err(format!("connection {connection} is closed"));
        let peer = self.peer(connection).ok_or_else(gone)?;
        let asked = self.core.clients.ask(&peer, frame);
        let asked = asked.map_err(|error| PyValueError::new_err(error.to_string()))?;
        asked.map_err(|why| match why {
            NotAsked::Gone => gone(),
            NotAsked::Full => PyBlockingIOError::new_err(format!(
                "connection {connection} has not taken or answered what it was sent"
            )),
        })
    }

    /// The next reply of any client: connection, opaque and frame; None after `timeout` seconds or
    /// `wake_client_replies`.
    fn next_client_reply(&self, py: Python<'_>, timeout: f64) -> PyResult<Option<ReplyTuple>> {
        self.check_process()?;
        let replies = &self.core.clients.replies;
        let reply = wait(py, seconds(timeout), |slice| replies.pop(slice))?;
        Ok(reply.filter(|reply| !reply.is_wake()).map(|reply| {
            let frame = reply.frame.map(|frame| PyBytes::new(py, &frame).unbind());
            (reply.connection, reply.opaque, frame)
        }))
    }

    /// Ends the wait for the next reply.
    fn wake_client_replies(&self) {
        self.core.clients.replies.wake();
    }

    /// Forgets a request to a client, whose reply no thread waits for any more.
    fn forget_client_reply(&self, connection: u64, opaque: i32) {
        if let Some(peer) = self.peer(connection) {
            peer.forget_reply(opaque);
        }
    }

    /// Open connections: id, "ip:port", seconds since the last byte read.
    fn connections(&self) -> Vec<(u64, String, f64)> {
        let now_ms = self.core.clock.monotonic_ms();
        let peers = self.core.clients.peers.all();
        let quiet = |peer: &server::Peer| (now_ms - peer.last_read_ms()) as f64 / 1e3;
        peers
            .iter()
            .map(|peer| (peer.id, peer.remote.to_string(), quiet(peer)))
            .collect()
    }

    /// Whether the connection is open.
    fn is_open(&self, connection: u64) -> bool {
        self.peer(connection).is_some_and(|peer| !peer.is_closing())
    }

    /// Closes one connection.
    fn close_connection(&self, connection: u64) {
        if let Some(peer) = self.peer(connection) {
            peer.close();
        }
    }

    /// The connections whose last natively answered heartbeat is at least `seconds` old.
    fn silent(&self, connections: Vec<u64>, seconds: f64) -> Vec<u64> {
        self.core.silent(connections, (seconds * 1e3) as i64)
    }

    /// Locks queues for a client; returns the queues it holds now, and the remark if a limit
    /// refused the others.
    fn lock_batch(
        &self,
        group: &str,
        client: (String, IpAddr),
        queues: Vec<QueueTuple>,
    ) -> (Vec<QueueTuple>, Option<String>) {
        let names = queues.into_iter().map(queue_name).collect();
        let (client_id, address) = (&*client.0, client.1);
        let granted = self.core.state.lock(group, (client_id, address), names);
        let remark = granted.remark();
        let queues = granted.queues.into_iter();
        let tuples = queues.map(|queue| (queue.topic, queue.broker_name, queue.queue_id));
        (tuples.collect(), remark)
    }

    /// Unlocks the queues that the client holds.
    fn unlock_batch(&self, group: &str, client_id: &str, queues: Vec<QueueTuple>) {
        let names: Vec<_> = queues.into_iter().map(queue_name).collect();
        self.core.state.locks.unlock(group, client_id, &names);
    }

    /// Counts since the start, and the requests that wait now.
    fn counters(&self) -> std::collections::BTreeMap<String, u64> {
        let core = &self.core;
        let mut counters = core.stats.counters.snapshot();
        let waiting = core.handoff.waiting();
        counters.extend(waiting.map(|(family, count)| (format!("waiting.{family}"), count as u64)));
        let now_ms = core.clock.monotonic_ms();
        let waits = core.handoff.head_waits_ms(now_ms);
        counters.extend(waits.map(|(of, ms)| (format!("head_wait_ms.{of}"), ms.unsigned_abs())));
        let (pending_acks, lost) = core.waiting.pending_acks();
        counters.insert("replies_lost".to_owned(), lost);
        let now = [
            ("pending_acks", pending_acks),
            ("connections", core.clients.peers.count()),
            ("held", core.waiting.long_polls.len()),
            ("parked", core.waiting.parked.count()),
            ("unfinished_bytes", core.clients.peers.unfinished()),
            ("large_request_bytes", self.admission.large_request_bytes()),
        ];
        counters.extend(now.map(|(name, count)| (name.to_owned(), count as u64)));
        counters
    }

    /// Threads and tasks that have failed: number of failures, and the reason if the last round
    /// failed.
    fn failures(&self) -> std::collections::BTreeMap<&'static str, (u64, Option<String>)> {
        let all = self.core.stats.services.all();
        all.into_iter()
            .map(|(name, failed)| (name, (failed.count, failed.now)))
            .collect()
    }

    /// The messages stored, read and delivered natively since the last call.
    fn take_traffic(&self) -> Vec<TrafficRow> {
        let taken = self.core.stats.traffic.take();
        let row = |kind, topic, group, queue_id, sums: server::Sums| {
            let server::Sums {
                times,
                messages,
                bytes,
                wait_ms,
                behind_bytes,
            } = sums;
            let sums = [times, messages, bytes, wait_ms, behind_bytes];
            (kind, topic, group, queue_id, sums)
        };
        let puts = taken.puts.into_iter();
        let puts = puts.map(|(topic, queue, sums)| row("put", topic, String::new(), queue, sums));
        let gets = taken.gets.into_iter();
        let gets = gets.map(|(topic, group, queue, sums)| row("get", topic, group, queue, sums));
        let deliveries = taken.deliveries.into_iter();
        let deliveries = deliveries
            .map(|(topic, queue, sums)| row("delivery", topic, String::new(), queue, sums));
        puts.chain(gets).chain(deliveries).collect()
    }

    /// Sets the longest time the log's lock may be held, and a request of each family may wait.
    fn set_overload(
        &self,
        busy_ms: i64,
        patience_ms: Option<HashMap<String, i64>>,
    ) -> PyResult<()> {
        let families = self.core.handoff.waiting();
        let families: Vec<&str> = families.map(|(family, _)| family).collect();
        let by_index = |patience: HashMap<String, i64>| {
            if let Some(name) = patience
                .keys()
                .find(|name| !families.contains(&name.as_str()))
            {
                return Err(PyValueError::new_err(format!("no family {name:?}")));
            }
            let limit = |family: &&str| patience.get(*family).copied();
            Ok(families.iter().map(limit).collect())
        };
        let patience_ms = patience_ms.map(by_index).transpose()?;
        self.core.handoff.overload.set(busy_ms, patience_ms);
        Ok(())
    }

    /// Requests refused by access control since the last call, and the newest: (address, why).
    fn take_denials(&self) -> (u64, Option<(String, String)>) {
        let denials = self.core.state.tables.acl.take_denials();
        (denials.count, denials.last)
    }

    /// Closes the listening sockets.
    fn stop_accepting(&self) {
        if let Some(running) = self.running.lock().as_ref() {
            running.stop_accepting();
        }
    }

    /// Answers every held request, and holds no more.
    fn release_holds(&self, py: Python<'_>) {
        py.detach(|| self.core.release_holds());
    }

    /// Drains the hand-off for at most `timeout` seconds, then closes everything.
    fn stop(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        self.check_process()?;
        let running = self.running.lock().take();
        py.detach(|| match running {
            Some(running) => running.stop(seconds(timeout)),
            None => self.core.close(),
        });
        Ok(())
    }
}

fn queue_name((topic, broker_name, queue_id): QueueTuple) -> QueueName {
    QueueName {
        broker_name,
        queue_id,
        topic,
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(running) = self.running.get_mut().take() else {
            return;
        };
        if self.process_id == std::process::id() {
            running.abandon();
        } else {
            // The threads are the parent's; joining them here would never return.
            std::mem::forget(running);
        }
    }
}
