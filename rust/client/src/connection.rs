//! The connection to one address, connecting or open, and its requests in flight.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::events::Failure;
use super::requests::{Entry, Requests};
use super::shared::Shared;
use super::silence::{FIRST_PATIENCE, Silence, Verdict, encode_question};
use super::waiters::{Waiter, Waiters};
use mq_format::remoting::{Frame, FrameError, HeaderLimits};
use mq_net::connect::ConnectError;
use mq_net::connection::{Connection as Socket, SendError};
use mq_net::frame::FrameSplitter;
use mq_net::receiver::Receiver;

/// Shown when a server closes a plain connection before any answer, as a server that requires TLS
/// does.
const NEVER_HEARD: &str =
    "end of stream before any answer; if it takes only TLS, give the client tls=TlsConfig()";

enum State {
    /// Requests wait for the connection, in order.
    Connecting(Vec<Requests>),
    Open(Arc<Socket>),
    /// Failed or closed: the pool makes a new connection for the next request.
    Gone,
}

/// A connection to one address and its requests.
pub(super) struct Connection {
    pub address: String,
    state: Mutex<State>,
    waiters: Mutex<Waiters>,
    /// Tokens of one-way requests whose bytes the system does not have yet.
    unwritten: Mutex<Vec<u64>>,
    /// When bytes last went either way, milliseconds on the pool's clock.
    last_used_ms: AtomicI64,
    silence: Silence,
    was_silent: AtomicBool,
}

impl Connection {
    /// A connection that replaces one that is gone, if there was one; `run` makes its connection.
    pub fn new(address: &str, now_ms: i64, gone: Option<&Self>) -> Self {
        let silent = gone.filter(|gone| gone.was_silent());
        let patience = silent.map_or(FIRST_PATIENCE, |gone| gone.silence.next_patience());
        Self {
            address: address.to_owned(),
            state: Mutex::new(State::Connecting(Vec::new())),
            waiters: Mutex::default(),
            unwritten: Mutex::default(),
            last_used_ms: AtomicI64::new(now_ms),
            silence: Silence::new(patience),
            was_silent: AtomicBool::new(false),
        }
    }

    /// Takes requests; gives them back if the connection is gone.
    ///
    /// The waiters are added before the bytes are sent, because the reply may come before `send`
    /// returns.
    pub fn submit(&self, shared: &Shared, requests: Requests) -> Result<(), Requests> {
        let mut state = self.state.lock();
        if matches!(*state, State::Gone) {
            return Err(requests);
        }
        let mut waiters = self.waiters.lock();
        for entry in requests.entries.iter().filter(|entry| !entry.oneway) {
            waiters.insert(entry.opaque, entry.waiter);
        }
        drop(waiters);
        match &mut *state {
            State::Connecting(waiting) => waiting.push(requests),
            State::Open(socket) => {
                let socket = socket.clone();
                drop(state);
                self.last_used_ms.store(shared.now_ms(), Ordering::Relaxed);
                self.send(shared, &socket, requests);
            }
            State::Gone => {}
        }
        Ok(())
    }

    /// Sends our reply to a server's request; drops the reply if the connection is gone.
    pub fn reply(&self, frame: Vec<u8>) {
        if let State::Open(socket) = &*self.state.lock() {
            // A peer that is gone or too slow does not get its reply.
            let _ = socket.send(frame);
        }
    }

    fn send(&self, shared: &Shared, socket: &Socket, requests: Requests) {
        let sent = socket.send(requests.bytes);
        let (oneways, calls): (Vec<_>, Vec<_>) =
            requests.entries.into_iter().partition(|entry| entry.oneway);
        let Err(error) = sent else {
            if !oneways.is_empty() {
                let tokens = oneways.iter().map(|entry| entry.waiter.token);
                self.unwritten.lock().extend(tokens);
                self.tell_written(shared, socket);
            }
            return;
        };
        // The receiver may have failed a waiter meanwhile. The side that removes a waiter reports
        // it.
        let mut waiters = self.waiters.lock();
        let mut failed = oneways;
        failed.extend(
            calls
                .into_iter()
                .filter(|call| waiters.remove(call.opaque).is_some()),
        );
        drop(waiters);
        shared.fail(failed, &self.failure_of(error));
    }

    /// Reports the one-way requests, if the system has their bytes.
    fn tell_written(&self, shared: &Shared, socket: &Socket) {
        if socket.queued_bytes() > 0 {
            return; // the task that writes comes here again
        }
        let tokens = std::mem::take(&mut *self.unwritten.lock());
        shared.release(tokens.len());
        for token in tokens {
            shared.events.written(token);
        }
    }

    async fn write(self: Arc<Self>, shared: Arc<Shared>, socket: Arc<Socket>) {
        while !socket.is_closed() {
            socket.write_some().await;
            self.tell_written(&shared, &socket);
            shared.events.settled();
        }
    }

    fn failure_of(&self, error: SendError) -> Failure {
        let text = format!("cannot send to {}: {error}", self.address);
        match error {
            SendError::Closed => Failure::Unreachable(text),
            SendError::Full { .. } => Failure::Busy(text),
        }
    }

    /// Connects, sends the waiting requests, receives until the end, then fails the open requests.
    pub async fn run(self: Arc<Self>, shared: Arc<Shared>) {
        let failure = match self.open(&shared).await {
            Ok((socket, receiver)) => {
                let writer = tokio::spawn(self.clone().write(shared.clone(), socket.clone()));
                let end = self.receive(&shared, receiver).await;
                socket.close();
                writer.abort();
                let text = format!("connection to {} closed: {end}", self.address);
                Failure::Unreachable(text)
            }
            Err(failure) => failure,
        };
        self.end(&shared, failure);
    }

    async fn open(&self, shared: &Shared) -> Result<(Arc<Socket>, Receiver), Failure> {
        let settings = &shared.settings;
        let (limit, queue_bytes) = (settings.connect_timeout, settings.outbound_limit_bytes);
        let opened = Socket::dial(&self.address, limit, shared.tls(), queue_bytes).await;
        let unreachable = |error: ConnectError| Failure::Unreachable(error.to_string());
        let (socket, receiver) = opened.map_err(unreachable)?;
        let mut state = self.state.lock();
        if let State::Connecting(waiting) = &mut *state {
            // Sent under the lock, so that later requests cannot overtake these.
            for requests in std::mem::take(waiting) {
                let waiters = self.waiters.lock();
                let alive = |entry: &Entry| entry.oneway || waiters.contains(entry.opaque);
                let requests = requests.retain(alive);
                drop(waiters);
                self.send(shared, &socket, requests);
            }
            *state = State::Open(socket.clone());
        } else {
            socket.close(); // the pool was closed in the meantime
        }
        drop(state);
        shared.events.settled();
        Ok((socket, receiver))
    }

    /// Receives until the connection ends; returns the reason.
    async fn receive(&self, shared: &Shared, mut receiver: Receiver) -> String {
        let mut splitter = FrameSplitter::new(shared.settings.max_frame_bytes, HeaderLimits::NONE);
        let mut unheard = shared.tls().is_none();
        loop {
            let take = |frame: &[u8]| self.take_frame(shared, frame).map_err(io::Error::other);
            match receiver.receive(&mut splitter, take).await {
                Ok(0) if unheard => return NEVER_HEARD.to_owned(),
                Ok(0) => return "end of stream".to_owned(),
                Ok(_) => {
                    let now_ms = shared.now_ms();
                    self.last_used_ms.store(now_ms, Ordering::Relaxed);
                    self.silence.heard(now_ms);
                }
                Err(error) => return error.to_string(),
            }
            unheard = false;
            shared.events.settled();
        }
    }

    fn take_frame(&self, shared: &Shared, frame: &[u8]) -> Result<(), FrameError> {
        let head = Frame::decode(frame)?;
        if !head.is_response() {
            shared.events.request(&self.address, frame);
            return Ok(());
        }
        // A reply without a waiter came after its deadline, or answers `encode_question`.
        if let Some(waiter) = self.waiters.lock().remove(head.opaque) {
            self.silence.proven();
            shared.events.reply(waiter.token, &head, frame);
            shared.release(1);
        }
        Ok(())
    }

    /// Fails the requests whose deadline has passed, and ends a connection whose peer is silent.
    /// Returns the time of the next check.
    pub fn expire(&self, shared: &Shared, now: Instant) -> Option<Instant> {
        let (expired, next) = self.waiters.lock().take_expired(now);
        let sent_ms = |waiter: &Waiter| shared.ms_of(waiter.deadline - waiter.timeout);
        let mut sent = expired.iter().map(sent_ms);
        let is_suspect = sent.any(|sent_ms| self.silence.lasts_since(sent_ms));
        shared.release(expired.len());
        for waiter in expired {
            let failure = Failure::Timeout {
                address: self.address.clone(),
                after: waiter.timeout,
            };
            shared.events.failed(waiter.token, failure);
        }
        let look = self.check_peer(shared, now, is_suspect);
        next.into_iter().chain(look).min()
    }

    /// Asks a suspect peer for a sign of life, and ends the connection if there is none. Returns
    /// the time of the next check.
    fn check_peer(&self, shared: &Shared, now: Instant, is_suspect: bool) -> Option<Instant> {
        let socket = match &*self.state.lock() {
            State::Open(socket) => socket.clone(),
            _ => return None, // `connect_timeout` limits connecting; a closed one needs no check
        };
        match self.silence.judge(shared.ms_of(now), is_suspect) {
            Verdict::Fine => None,
            Verdict::Wait(until_ms) => Some(shared.instant_of(until_ms)),
            Verdict::Ask(until_ms) => {
                let mut question = Vec::new();
                encode_question(shared.next_opaque(), &mut question);
                // A peer whose buffers are full does not get it, and has the same time to speak.
                let _ = socket.send(question);
                Some(shared.instant_of(until_ms))
            }
            Verdict::Silent => {
                self.was_silent.store(true, Ordering::Relaxed);
                let text = format!("{} is silent, so its connection was closed", self.address);
                self.end(shared, Failure::Unreachable(text));
                None
            }
        }
    }

    /// Whether it was closed because its peer was silent.
    pub fn was_silent(&self) -> bool {
        self.was_silent.load(Ordering::Relaxed)
    }

    /// Whether it failed or was closed, and takes no more requests.
    pub fn is_gone(&self) -> bool {
        matches!(*self.state.lock(), State::Gone)
    }

    /// Whether nothing was sent, received or awaited since `since_ms`.
    pub fn is_idle(&self, since_ms: i64) -> bool {
        self.last_used_ms.load(Ordering::Relaxed) < since_ms
            && self.waiters.lock().is_empty()
            && matches!(*self.state.lock(), State::Open(_))
    }

    /// Ends the connection; `run` then finishes by itself.
    pub fn close(&self) {
        if let State::Open(socket) = &*self.state.lock() {
            socket.close();
        }
    }

    /// Marks the connection gone and fails everything on it, once.
    pub fn end(&self, shared: &Shared, failure: Failure) {
        let before = std::mem::replace(&mut *self.state.lock(), State::Gone);
        let waiting = match before {
            State::Gone => return,
            State::Connecting(waiting) => waiting,
            State::Open(socket) => {
                socket.close();
                Vec::new()
            }
        };
        let entries = waiting.into_iter().flat_map(|requests| requests.entries);
        shared.fail(entries.filter(|entry| entry.oneway).collect(), &failure);
        let waiters = self.waiters.lock().take_all();
        let unwritten = std::mem::take(&mut *self.unwritten.lock());
        shared.release(waiters.len() + unwritten.len());
        let waiting = waiters.into_iter().map(|waiter| waiter.token);
        for token in waiting.chain(unwritten) {
            shared.events.failed(token, failure.clone());
        }
        shared.events.closed(&self.address);
        shared.events.settled();
    }
}
