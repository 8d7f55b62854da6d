//! Python's futures of requests under way.

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// Futures by number, each until the outcome of its request is told.
///
/// Bounded by the requests in flight: every number gets exactly one outcome.
#[derive(Default)]
pub(super) struct Futures(Mutex<Slots>);

#[derive(Default)]
struct Slots {
    slots: Vec<Option<Waiting>>,
    free: Vec<usize>,
}

/// Who waits for the outcome of a request.
pub(super) struct Waiting {
    pub future: Py<PyAny>,
    /// The server's, for the text of an error.
    pub address: Py<PyAny>,
}

impl Futures {
    /// Keeps a future; its number, and whether nobody else waits.
    pub fn keep(&self, waiting: Waiting) -> (u64, bool) {
        let mut kept = self.0.lock();
        let Slots { slots, free } = &mut *kept;
        let alone = slots.len() == free.len();
        let number = free.pop().unwrap_or_else(|| {
            slots.push(None);
            slots.len() - 1
        });
        slots[number] = Some(waiting);
        (number as u64, alone)
    }

    /// Takes out the future of a number, which is free again.
    pub fn take(&self, number: u64) -> Option<Waiting> {
        let mut kept = self.0.lock();
        let number = usize::try_from(number).ok()?;
        let waiting = kept.slots.get_mut(number)?.take()?;
        kept.free.push(number);
        Some(waiting)
    }

    /// Shows the collector every object that is kept.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Another thread that is about to keep or take one has no cycle to collect.
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
        drop(forgotten); // outside the lock: what goes with a future may be anything
    }
}
