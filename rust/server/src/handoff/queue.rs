//! A bounded queue between threads: an item that does not fit is returned at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use mq_base::clock::Clock;

/// An empty queue keeps memory for this many items.
const KEPT_ITEMS: usize = 1_024;
/// The longest wait for an item.
const WAIT_MAX: Duration = Duration::from_secs(86_400);

/// Many producers, many consumers, at most `capacity` items.
pub struct BoundedQueue<T> {
    clock: Arc<dyn Clock>,
    state: Mutex<State<T>>,
    ready: Condvar,
    capacity: usize,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    closed: bool,
}

impl<T> State<T> {
    /// Removes the oldest item. The last item of a flood also frees the flood's memory.
    fn take_oldest(&mut self) -> Option<T> {
        let item = self.items.pop_front()?;
        if self.items.is_empty() && self.items.capacity() > KEPT_ITEMS {
            self.items = VecDeque::new();
        }
        Some(item)
    }
}

/// Result of a wait for an item.
#[derive(Debug, PartialEq, Eq)]
pub enum Popped<T> {
    /// The oldest item.
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
            items: VecDeque::new(),
            closed: false,
        };
        Self {
            clock,
            state: Mutex::new(state),
            ready: Condvar::new(),
            capacity,
        }
    }

    /// Adds an item, or returns it if the queue is full or closed.
    pub fn push(&self, item: T) -> Result<(), T> {
        let mut state = self.state.lock();
        if state.closed || state.items.len() >= self.capacity {
            return Err(item);
        }
        state.items.push_back(item);
        drop(state);
        self.ready.notify_one();
        Ok(())
    }

    /// Adds an item. If the queue is full, the oldest item is removed and returned.
    pub fn push_over(&self, item: T) -> Option<T> {
        let mut state = self.state.lock();
        if state.closed {
            return Some(item);
        }
        let full = state.items.len() >= self.capacity;
        let lost = if full { state.items.pop_front() } else { None };
        state.items.push_back(item);
        drop(state);
        self.ready.notify_one();
        lost
    }

    /// Waits for the oldest item, for at most `timeout` or one day, whichever is shorter.
    pub fn pop(&self, timeout: Duration) -> Popped<T> {
        let timeout_ns = timeout.min(WAIT_MAX).as_nanos();
        let deadline_ms = self.clock.monotonic_ms() + timeout_ns.div_ceil(1_000_000) as i64;
        let mut state = self.state.lock();
        loop {
            if let Some(item) = state.take_oldest() {
                return Popped::Item(item);
            }
            if state.closed {
                return Popped::Closed;
            }
            let left_ms = deadline_ms - self.clock.monotonic_ms();
            let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
            if self.ready.wait_for(&mut state, left).timed_out() && state.items.is_empty() {
                return if state.closed {
                    Popped::Closed
                } else {
                    Popped::Timeout
                };
            }
        }
    }

    /// Removes the oldest item if it is `late`; also returns the number of items left.
    pub fn pop_if(&self, late: impl FnOnce(&T) -> bool) -> Option<(T, usize)> {
        let mut state = self.state.lock();
        if !late(state.items.front()?) {
            return None;
        }
        let item = state.take_oldest()?;
        Some((item, state.items.len()))
    }

    /// Calls `read` with the oldest item.
    pub fn with_oldest<R>(&self, read: impl FnOnce(&T) -> R) -> Option<R> {
        self.state.lock().items.front().map(read)
    }

    /// Whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Closes the queue and wakes every consumer; returns the items that were not consumed.
    pub fn close(&self) -> VecDeque<T> {
        let mut state = self.state.lock();
        state.closed = true;
        let left = std::mem::take(&mut state.items);
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
    fn a_queue_that_is_empty_again_keeps_no_memory_of_a_flood() {
        let queue = BoundedQueue::new(usize::MAX, SystemClock::shared());
        for item in 0..100_000 {
            queue.push(item).unwrap();
        }
        for item in 0..100_000 {
            assert_eq!(queue.pop_if(|_| true), Some((item, 99_999 - item)));
        }
        assert_eq!(queue.state.lock().items.capacity(), 0);
    }

    #[test]
    fn only_a_late_oldest_item_goes() {
        let queue = BoundedQueue::new(3, SystemClock::shared());
        assert_eq!(queue.pop_if(|_: &i32| true), None);
        for item in [1, 2, 3] {
            queue.push(item).unwrap();
        }
        assert_eq!(queue.with_oldest(|item| item * 10), Some(10));
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
