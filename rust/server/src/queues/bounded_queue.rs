//! A bounded queue between threads: an item that does not fit is returned at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::queues::lanes::Lanes;
use mq_base::clock::Clock;

/// The client of all items in a queue that is not fair.
const ALL: u64 = 0;
/// The longest wait for an item.
const WAIT_MAX: Duration = Duration::from_secs(86_400);

/// Many producers, many consumers, at most `capacity` items.
///
/// A fair queue serves its clients in turn. The items of one client may take as much room as is
/// free, at most half of the queue, so that there is always room for an item of another client.
pub struct BoundedQueue<T> {
    /// The client of an item, for a fair queue.
    client_of: Option<fn(&T) -> u64>,
    clock: Arc<dyn Clock>,
    state: Mutex<State<T>>,
    ready: Condvar,
    capacity: usize,
}

#[derive(Debug)]
struct State<T> {
    items: Lanes<T>,
    closed: bool,
}

/// Result of a wait for an item.
#[derive(Debug, PartialEq, Eq)]
pub enum Popped<T> {
    /// The next item.
    Item(T),
    /// No item arrived in time.
    Timeout,
    /// The queue is closed and empty: no item will ever come.
    Closed,
}

impl<T> BoundedQueue<T> {
    /// Creates an empty queue for `capacity` items; waits are measured with `clock`.
    pub fn new(capacity: usize, clock: Arc<dyn Clock>) -> Self {
        let state = State {
            items: Lanes::new(),
            closed: false,
        };
        Self {
            client_of: None,
            clock,
            state: Mutex::new(state),
            ready: Condvar::new(),
            capacity,
        }
    }

    /// Makes the queue fair between the clients of its items.
    pub fn fair(self, client_of: fn(&T) -> u64) -> Self {
        Self {
            client_of: Some(client_of),
            ..self
        }
    }

    /// Adds an item, or returns it if the queue or the part of its client is full, or the queue is
    /// closed.
    pub fn push(&self, item: T) -> Result<(), T> {
        let client = self.client_of.map(|of| of(&item));
        let mut state = self.state.lock();
        let free = self.capacity.saturating_sub(state.items.len());
        let has_its_part = client.is_some_and(|client| state.items.len_of(client) >= free);
        if state.closed || free == 0 || has_its_part {
            return Err(item);
        }
        state.items.push(client.unwrap_or(ALL), item);
        drop(state);
        self.ready.notify_one();
        Ok(())
    }

    /// Adds an item. If the queue is full, the next item is removed and returned.
    pub fn push_over(&self, item: T) -> Option<T> {
        let mut state = self.state.lock();
        if state.closed {
            return Some(item);
        }
        let full = state.items.len() >= self.capacity;
        let lost = if full { state.items.pop() } else { None };
        let client = self.client_of.map_or(ALL, |of| of(&item));
        state.items.push(client, item);
        drop(state);
        self.ready.notify_one();
        lost
    }

    /// Waits for the next item, for at most `timeout` or one day, whichever is shorter.
    pub fn pop(&self, timeout: Duration) -> Popped<T> {
        let timeout_ns = timeout.min(WAIT_MAX).as_nanos();
        let deadline_ms = self.clock.monotonic_ms() + timeout_ns.div_ceil(1_000_000) as i64;
        let mut state = self.state.lock();
        loop {
            if let Some(item) = state.items.pop() {
                return Popped::Item(item);
            }
            if state.closed {
                return Popped::Closed;
            }
            let left_ms = deadline_ms - self.clock.monotonic_ms();
            let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
            if self.ready.wait_for(&mut state, left).timed_out() && state.items.len() == 0 {
                return if state.closed {
                    Popped::Closed
                } else {
                    Popped::Timeout
                };
            }
        }
    }

    /// Removes the oldest item of a client if it is `late`; also returns the number of items left.
    pub fn pop_if(&self, late: impl Fn(&T) -> bool) -> Option<(T, usize)> {
        let mut state = self.state.lock();
        let item = state.items.pop_if(late)?;
        Some((item, state.items.len()))
    }

    /// Calls `read` with the oldest item of each client; returns the largest result.
    pub fn most_of_oldest<R: Ord>(&self, read: impl Fn(&T) -> R) -> Option<R> {
        self.state.lock().items.fronts().map(read).max()
    }

    /// Whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Closes the queue and wakes every consumer; returns the items that were not consumed.
    pub fn close(&self) -> VecDeque<T> {
        let mut state = self.state.lock();
        state.closed = true;
        let left = state.items.drain();
        drop(state);
        self.ready.notify_all();
        left
    }

    /// Number of waiting items.
    pub fn len(&self) -> usize {
        self.state.lock().items.len()
    }

    /// Whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use mq_base::clock::SystemClock;

    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn gives_back_what_does_not_fit() {
        let queue = BoundedQueue::new(2, SystemClock::shared());
        assert_eq!(
            (queue.push(1), queue.push(2), queue.push(3)),
            (Ok(()), Ok(()), Err(3))
        );
        assert_eq!(queue.push_over(4), Some(1));
        assert_eq!(queue.pop(SHORT), Popped::Item(2));
        assert_eq!(queue.pop(SHORT), Popped::Item(4));
        assert_eq!(queue.pop(SHORT), Popped::Timeout);
    }

    #[test]
    fn a_client_that_floods_a_fair_queue_keeps_no_other_waiting() {
        let queue = BoundedQueue::new(100, SystemClock::shared()).fair(|(client, _)| *client);
        let mut taken = 0;
        while queue.push((1, taken)).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, 50, "half of it");
        for client in 2..20 {
            assert_eq!(queue.push((client, 0)), Ok(()));
        }
        assert_eq!(queue.push((1, taken)), Err((1, taken)));
        assert_eq!(queue.pop(SHORT), Popped::Item((1, 0)));
        for client in 2..20 {
            assert_eq!(queue.pop(SHORT), Popped::Item((client, 0)));
        }
        assert_eq!(queue.pop(SHORT), Popped::Item((1, 1)));
    }

    #[test]
    fn a_queue_that_is_not_fair_is_first_in_first_out() {
        let queue = BoundedQueue::new(100, SystemClock::shared());
        for item in 0..100 {
            queue.push(item).unwrap();
        }
        for item in 0..100 {
            assert_eq!(queue.pop(SHORT), Popped::Item(item));
        }
    }

    #[test]
    fn only_a_late_oldest_item_goes() {
        let queue = BoundedQueue::new(3, SystemClock::shared());
        assert_eq!(queue.pop_if(|_: &i32| true), None);
        for item in [1, 2, 3] {
            queue.push(item).unwrap();
        }
        assert_eq!(queue.most_of_oldest(|item| item * 10), Some(10));
        assert_eq!(queue.pop_if(|item| *item == 1), Some((1, 2)));
        assert_eq!(queue.pop_if(|item| *item == 3), None);
        assert_eq!(queue.len(), 2);
    }

    #[test]
    fn closing_wakes_waiting_consumers() {
        let queue = BoundedQueue::<i32>::new(1, SystemClock::shared());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| queue.pop(Duration::from_secs(30)));
            queue.close();
            assert_eq!(waiter.join().unwrap(), Popped::Closed);
        });
        assert_eq!(queue.push(1), Err(1));
        assert!(queue.is_closed());
    }
}
