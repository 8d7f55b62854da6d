//! Python's futures of requests in flight.

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// Futures by number, each kept until the outcome of its request.
///
/// Bounded by the requests in flight: every number gets exactly one outcome.
#[derive(Default)]
pub(super) struct Futures(Mutex<Slots>);

#[derive(Default)]
struct Slots {
    slots: Vec<Option<Waiting>>,
    free: Vec<usize>,
    /// Number of kept futures that are a `Pending`.
    pending: usize,
}

/// The future of a request, and its server.
pub(super) struct Waiting {
    /// Gets the outcome by its methods `set_result` and `set_exception`.
    pub future: Py<PyAny>,
    /// Whether it is a `Pending`.
    pub is_pending: bool,
    /// The server's address, for the text of an error.
    pub address: Py<PyAny>,
}

impl Futures {
    /// Keeps a future; returns its number, and whether it is the only one, or the only `Pending`.
    pub fn keep(&self, waiting: Waiting) -> (u64, bool) {
        let mut kept = self.0.lock();
        let Slots {
            slots,
            free,
            pending,
        } = &mut *kept;
        let mut alone = slots.len() == free.len();
        if waiting.is_pending {
            alone = *pending == 0;
            *pending += 1;
        }
        let number = free.pop().unwrap_or_else(|| {
            slots.push(None);
            slots.len() - 1
        });
        slots[number] = Some(waiting);
        (number as u64, alone)
    }

    /// Removes the future of a number, and frees the number.
    pub fn take(&self, number: u64) -> Option<Waiting> {
        let mut kept = self.0.lock();
        let number = usize::try_from(number).ok()?;
        let waiting = kept.slots.get_mut(number)?.take()?;
        kept.free.push(number);
        kept.pending -= usize::from(waiting.is_pending);
        Some(waiting)
    }

    /// Shows every kept object to the garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // While another thread holds the lock, the futures are in use and no cycle needs
        // collecting.
        let Some(kept) = self.0.try_lock() else {
            return Ok(());
        };
        for waiting in kept.slots.iter().flatten() {
            visit.call(&waiting.future)?;
        }
        Ok(())
    }

    /// Forgets all of them.
    pub fn clear(&self) {
        let forgotten = std::mem::take(&mut *self.0.lock());
        drop(forgotten); // outside the lock: dropping a future may run any code
    }
}
