//! Events, kept until Python fetches them, or passed at once to the thread that waits for one.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::frame_template::{PulledReply, ReplyKind, SentReply};
use super::frames::frame_to_python;
use super::outbox::Outbox;
use mq_client::events::{Events, Failure};
use mq_format::remoting::Frame;

/// Tokens with this bit belong to a thread that waits in `Seat::wait`, not to a Python future.
pub(super) const SEATED: u64 = 4;
/// Below the number: `SEATED` and a `ReplyKind`.
const FLAG_BITS: u32 = 3;

// Kinds of events, as the stub of `Connector.drain` describes them.
const REPLY: u8 = 0;
const FAILED: u8 = 1;
pub(super) const WRITTEN: u8 = 2;
const REQUEST: u8 = 3;
const CLOSED: u8 = 4;
pub(super) const READ: u8 = 5;
const DROPPED: u8 = 6;

/// Memory of servers' requests that are kept until Python fetches them, bytes; further ones are
/// dropped.
const UNREAD_REQUEST_BYTES_MAX: usize = 64 << 20;

/// Events until Python fetches them. Bounded by the requests in flight and
/// `UNREAD_REQUEST_BYTES_MAX`.
pub(super) struct Inbox {
    wake: OwnedFd,
    events: Mutex<Pending>,
    seats: Mutex<HashMap<u64, Arc<Seat>>>,
    /// Told when replies came.
    outbox: OnceLock<Weak<Outbox>>,
}

/// The token of a request: its number, and how to read its reply.
pub(super) fn token_of(number: u64, kind: ReplyKind) -> u64 {
    number << FLAG_BITS | kind as u64
}

/// The number in a token.
pub(super) fn number_of(token: u64) -> u64 {
    token >> FLAG_BITS
}

/// A place in which one thread waits for the outcome of one request.
#[derive(Default)]
pub(super) struct Seat {
    outcome: Mutex<Option<Event>>,
    arrived: Condvar,
}

impl Seat {
    /// The outcome, None if it does not come within `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<Event> {
        let mut outcome = self.outcome.lock();
        if outcome.is_none() {
            self.arrived.wait_for(&mut outcome, timeout);
        }
        outcome.take()
    }
}

#[derive(Default)]
struct Pending {
    events: Vec<Event>,
    /// Memory of the servers' requests in `events`.
    request_bytes: usize,
    /// Number and bytes of the servers' requests that were dropped since the last fetch.
    dropped: (u64, usize),
    /// Whether the wake-up byte was written and `drain` has not run since.
    woken: bool,
}

pub(super) enum Event {
    Reply(u64, Vec<u8>),
    Sent(u64, SentReply),
    Pulled(u64, PulledReply),
    Failed(u64, Failure),
    Written(u64),
    Request(String, Vec<u8>),
    Closed(String),
    /// Number and bytes of servers' requests that were dropped.
    Dropped(u64, usize),
}

impl Event {
    /// The token of the request that this event ends; None for other events.
    pub fn token(&self) -> Option<u64> {
        match self {
            Self::Reply(token, _)
            | Self::Sent(token, _)
            | Self::Pulled(token, _)
            | Self::Failed(token, _)
            | Self::Written(token) => Some(*token),
            Self::Request(..) | Self::Closed(_) | Self::Dropped(..) => None,
        }
    }

    /// `(kind, payload)` as the stub describes it.
    pub fn into_python<'py>(self, py: Python<'py>) -> PyResult<(u8, Bound<'py, PyAny>)> {
        match self {
            Self::Reply(_, frame) => Ok((REPLY, frame_to_python(py, &frame)?)),
            Self::Failed(_, failure) => {
                let why = (failure.category(), failure.to_string());
                Ok((FAILED, why.into_bound_py_any(py)?))
            }
            Self::Written(_) => Ok((WRITTEN, py.None().into_bound(py))),
            Self::Request(address, frame) => {
                let asked = (address, frame_to_python(py, &frame)?);
                Ok((REQUEST, asked.into_bound_py_any(py)?))
            }
            Self::Closed(address) => Ok((CLOSED, address.into_bound_py_any(py)?)),
            Self::Dropped(count, bytes) => Ok((DROPPED, (count, bytes).into_bound_py_any(py)?)),
            Self::Sent(_, reply) => Ok((READ, Bound::new(py, reply)?.into_any())),
            Self::Pulled(_, reply) => {
                let body = PyBytes::new(py, &reply.body);
                let numbers = (
                    reply.code,
                    reply.next_offset,
                    reply.min_offset,
                    reply.max_offset,
                    reply.suggested_broker_id,
                    body,
                );
                Ok((READ, numbers.into_bound_py_any(py)?))
            }
        }
    }
}

impl Inbox {
    /// Wakes Python by a byte into `wake`.
    pub fn new(wake: OwnedFd) -> Self {
        Self {
            wake,
            events: Mutex::default(),
            seats: Mutex::default(),
            outbox: OnceLock::new(),
        }
    }

    /// Tells an outbox when replies came, once.
    pub fn on_replies(&self, outbox: &Arc<Outbox>) {
        let _ = self.outbox.set(Arc::downgrade(outbox));
    }

    /// Adds a seat for the outcome of a request whose token has the bit `SEATED`.
    pub fn seat(&self, token: u64) -> Arc<Seat> {
        let seat = Arc::new(Seat::default());
        self.seats.lock().insert(token, seat.clone());
        seat
    }

    /// Removes a seat after its thread stopped waiting.
    pub fn leave(&self, token: u64) {
        self.seats.lock().remove(&token);
    }

    /// Delivers the outcome of a request.
    fn tell(&self, token: u64, event: Event) {
        if token & SEATED == 0 {
            return self.push(event);
        }
        // The seat is gone if the wait was interrupted.
        if let Some(seat) = self.seats.lock().remove(&token) {
            *seat.outcome.lock() = Some(event);
            seat.arrived.notify_one();
        }
    }

    fn push(&self, event: Event) {
        self.events.lock().events.push(event);
    }

    /// All events since the last call.
    pub fn take(&self) -> Vec<Event> {
        let Pending {
            mut events,
            dropped: (count, bytes),
            ..
        } = std::mem::take(&mut *self.events.lock());
        if count > 0 {
            events.push(Event::Dropped(count, bytes));
        }
        events
    }
}

impl Events for Inbox {
    fn reply(&self, token: u64, reply: &Frame<'_>, frame: &[u8]) {
        let read = match ReplyKind::of(token) {
            ReplyKind::Sent => SentReply::read(reply).map(|reply| Event::Sent(token, reply)),
            ReplyKind::Pulled => PulledReply::read(reply).map(|reply| Event::Pulled(token, reply)),
            ReplyKind::Frame => None,
        };
        let event = read.unwrap_or_else(|| Event::Reply(token, frame.to_vec()));
        self.tell(token, event);
    }

    fn failed(&self, token: u64, failure: Failure) {
        self.tell(token, Event::Failed(token, failure));
    }

    fn written(&self, token: u64) {
        self.tell(token, Event::Written(token));
    }

    fn request(&self, address: &str, frame: &[u8]) {
        let bytes = size_of::<Event>() + address.len() + frame.len();
        let mut pending = self.events.lock();
        if pending.request_bytes + bytes > UNREAD_REQUEST_BYTES_MAX {
            pending.dropped.0 += 1;
            pending.dropped.1 += frame.len();
            return;
        }
        pending.request_bytes += bytes;
        let request = Event::Request(address.to_owned(), frame.to_vec());
        pending.events.push(request);
    }

    fn closed(&self, address: &str) {
        self.push(Event::Closed(address.to_owned()));
    }

    fn settled(&self) {
        let mut pending = self.events.lock();
        if pending.events.is_empty() {
            return;
        }
        if let Some(outbox) = self.outbox.get().and_then(Weak::upgrade) {
            outbox.replied();
        }
        if pending.woken {
            return;
        }
        pending.woken = true;
        drop(pending);
        // A full pipe still holds an unread byte, and a closed pipe has no reader. Neither needs a
        // byte.
        let _ = rustix::io::write(&self.wake, &[1]);
    }
}
