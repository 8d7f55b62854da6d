//! Sends that no thread waits for: settled in `Connector.drain`, without a call of Python for each.

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::frame_template::SentReply;
use super::inbox::Event;
use super::send_counts::Accepted;

/// A send on its way. A subclass of Python's gives it the face of a future.
#[pyclass(frozen, subclass, module = "mqcommon._core")]
pub struct Pending {
    /// What the end of the send is counted in.
    accepted: Py<Accepted>,
    size: u64,
    path: Py<PyAny>,
    msg_id: Py<PyAny>,
    state: Mutex<State>,
}

struct State {
    /// What Python needs to judge an answer; None once there is an outcome.
    send: Option<Send>,
    reply: Option<SentReply>,
    is_watched: bool,
    outcome: Option<Py<PyAny>>,
}

/// `(posts, outgoing, started, timeout, on_done)`.
type Submitted = (Py<PyAny>, Py<PyAny>, f64, f64, Option<Py<PyAny>>);

struct Send {
    posts: Py<PyAny>,
    outgoing: Py<PyAny>,
    started: f64,
    timeout: f64,
    on_done: Option<Py<PyAny>>,
}

#[pymethods]
impl Pending {
    #[new]
    #[allow(clippy::too_many_arguments)] // one call from Python, instead of one and a tuple
    fn new(
        accepted: Py<Accepted>,
        size: u64,
        path: Py<PyAny>,
        msg_id: Py<PyAny>,
        posts: Py<PyAny>,
        outgoing: Py<PyAny>,
        started: f64,
        timeout: f64,
        on_done: Option<Py<PyAny>>,
    ) -> Self {
        let is_watched = on_done.is_some();
        let send = Send {
            posts,
            outgoing,
            started,
            timeout,
            on_done,
        };
        Self {
            accepted,
            size,
            path,
            msg_id,
            state: Mutex::new(State {
                send: Some(send),
                reply: None,
                is_watched,
                outcome: None,
            }),
        }
    }

    #[getter]
    fn path(&self, py: Python<'_>) -> Py<PyAny> {
        self.path.clone_ref(py)
    }

    #[getter]
    fn msg_id(&self, py: Python<'_>) -> Py<PyAny> {
        self.msg_id.clone_ref(py)
    }

    #[getter]
    fn accepted(&self, py: Python<'_>) -> Py<Accepted> {
        self.accepted.clone_ref(py)
    }

    #[getter]
    fn size(&self) -> u64 {
        self.size
    }

    #[getter]
    fn send(&self, py: Python<'_>) -> Option<Submitted> {
        let state = self.state.lock();
        let send = state.send.as_ref()?;
        Some((
            send.posts.clone_ref(py),
            send.outgoing.clone_ref(py),
            send.started,
            send.timeout,
            send.on_done.as_ref().map(|on_done| on_done.clone_ref(py)),
        ))
    }

    #[getter]
    fn reply(&self) -> Option<SentReply> {
        self.state.lock().reply.clone()
    }

    #[getter]
    fn outcome(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let state = self.state.lock();
        state.outcome.as_ref().map(|outcome| outcome.clone_ref(py))
    }

    #[getter]
    fn is_settled(&self) -> bool {
        let state = self.state.lock();
        state.reply.is_some() || state.outcome.is_some()
    }

    fn settle(&self, outcome: Py<PyAny>) {
        let mut state = self.state.lock();
        let before = (state.send.take(), state.outcome.replace(outcome));
        drop(state);
        drop(before); // outside the lock: dropping an object may run any code
    }

    fn watch(&self) -> bool {
        let mut state = self.state.lock();
        state.is_watched = true;
        state.reply.is_none()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.accepted)?;
        visit.call(&self.path)?;
        // While another thread holds the lock, the send is in use and no cycle needs collecting.
        let Some(state) = self.state.try_lock() else {
            return Ok(());
        };
        if let Some(send) = &state.send {
            visit.call(&send.posts)?;
            visit.call(&send.on_done)?;
        }
        visit.call(&state.outcome)
    }
}

impl Pending {
    /// Takes the reply of a stored message; gives it back if Python must be told of it.
    fn store(&self, reply: SentReply) -> Result<(), SentReply> {
        let mut state = self.state.lock();
        if state.is_watched || !reply.is_ok() {
            return Err(reply);
        }
        state.reply = Some(reply);
        let send = state.send.take();
        drop(state);
        drop(send); // outside the lock: dropping an object may run any code
        Ok(())
    }
}

/// Messages and bytes of sends that ended, for each `Accepted` in turn.
#[derive(Default)]
pub(super) struct Ended(Vec<(Py<Accepted>, u64, u64)>);

impl Ended {
    /// Settles and counts a `Pending` whose message is stored, or written if it is one-way; returns
    /// an event that Python must handle.
    pub fn settle(&mut self, pending: &Bound<'_, PyAny>, event: Event) -> PyResult<Option<Event>> {
        let pending = pending.cast::<Pending>()?;
        match event {
            Event::Written(_) => {}
            Event::Sent(token, reply) => {
                if let Err(reply) = pending.get().store(reply) {
                    return Ok(Some(Event::Sent(token, reply)));
                }
            }
            other => return Ok(Some(other)),
        }
        self.count(pending.py(), pending.get());
        Ok(None)
    }

    fn count(&mut self, py: Python<'_>, pending: &Pending) {
        match self.0.last_mut() {
            Some((accepted, count, bytes)) if accepted.is(&pending.accepted) => {
                *count += 1;
                *bytes += pending.size;
            }
            _ => self
                .0
                .push((pending.accepted.clone_ref(py), 1, pending.size)),
        }
    }

    /// Makes room for other sends.
    pub fn leave(self, py: Python<'_>) -> PyResult<()> {
        self.0
            .into_iter()
            .try_for_each(|(accepted, count, size)| Accepted::leave(accepted.bind(py), count, size))
    }
}
