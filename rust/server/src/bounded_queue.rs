//! A bounded queue between threads: an item that does not fit is returned at once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

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

/// Room for this many items is kept of a lane that is empty again.
const KEPT_ITEMS: usize = 1_024;

/// The items of a queue, in lanes, one for each client: lanes take turns, and the items of a lane
/// keep their order. With one lane the queue is first in, first out.
#[derive(Debug)]
struct Lanes<T> {
    /// No lane is empty.
    lanes: HashMap<u64, VecDeque<T>>,
    /// Every lane once; the first one is next.
    turns: VecDeque<u64>,
    len: usize,
    /// The memory of a lane that is empty again.
    spare: VecDeque<T>,
}

impl<T> Lanes<T> {
    fn new() -> Self {
        Self {
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            len: 0,
            spare: VecDeque::new(),
        }
    }

    /// Items of all lanes.
    fn len(&self) -> usize {
        self.len
    }

    /// Items of one lane.
    fn len_of(&self, lane: u64) -> usize {
        self.lanes.get(&lane).map_or(0, VecDeque::len)
    }

    fn push(&mut self, lane: u64, item: T) {
        let items = self.lanes.entry(lane).or_insert_with(|| {
            self.turns.push_back(lane);
            std::mem::take(&mut self.spare)
        });
        items.push_back(item);
        self.len += 1;
    }

    /// Removes the first item of the lane whose turn it is.
    fn pop(&mut self) -> Option<T> {
        let lane = self.turns.pop_front()?;
        let item = self.take(lane);
        if self.lanes.contains_key(&lane) {
            self.turns.push_back(lane);
        }
        item
    }

    /// Removes an item that is first in its lane and that `wanted` accepts. The turns stay.
    fn pop_if(&mut self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let is_wanted = |lane: &u64| {
            let items = self.lanes.get(lane);
            items.and_then(VecDeque::front).is_some_and(&wanted)
        };
        let place = self.turns.iter().position(is_wanted)?;
        let lane = self.turns[place];
        let item = self.take(lane);
        if !self.lanes.contains_key(&lane) {
            self.turns.remove(place);
        }
        item
    }

    /// The first item of each lane.
    fn fronts(&self) -> impl Iterator<Item = &T> {
        self.lanes.values().filter_map(VecDeque::front)
    }

    /// Removes all items, lane by lane.
    fn drain(&mut self) -> VecDeque<T> {
        let all = std::mem::replace(self, Self::new());
        all.lanes.into_values().flatten().collect()
    }

    /// Removes the first item of a lane. The last item of a flood also frees the flood's memory.
    fn take(&mut self, lane: u64) -> Option<T> {
        let items = self.lanes.get_mut(&lane)?;
        let item = items.pop_front()?;
        self.len -= 1;
        if items.is_empty() {
            let empty = self.lanes.remove(&lane)?;
            if empty.capacity() <= KEPT_ITEMS {
                self.spare = empty;
            }
        }
        Some(item)
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

    #[test]
    fn lanes_take_turns_and_keep_their_order() {
        let mut lanes = Lanes::new();
        for item in 0..4 {
            lanes.push(1, (1, item));
        }
        lanes.push(2, (2, 0));
        lanes.push(3, (3, 0));
        lanes.push(3, (3, 1));
        assert_eq!((lanes.len(), lanes.len_of(1), lanes.len_of(9)), (7, 4, 0));
        let mut order = Vec::new();
        while let Some(item) = lanes.pop() {
            order.push(item);
        }
        let turns = [(1, 0), (2, 0), (3, 0), (1, 1), (3, 1), (1, 2), (1, 3)];
        assert_eq!((order.as_slice(), lanes.len()), (turns.as_slice(), 0));
    }

    #[test]
    fn an_item_of_any_lane_may_be_taken_out() {
        let mut lanes = Lanes::new();
        for (lane, item) in [(1, 10), (1, 21), (2, 20), (3, 30)] {
            lanes.push(lane, item);
        }
        assert_eq!(lanes.pop_if(|item| *item > 30), None);
        assert_eq!(
            lanes.pop_if(|item| *item == 21),
            None,
            "it is not the first"
        );
        assert_eq!(lanes.pop_if(|item| *item == 20), Some(20));
        assert_eq!(lanes.pop_if(|item| *item == 10), Some(10));
        assert_eq!(lanes.fronts().sum::<i32>(), 51);
        assert_eq!(
            (lanes.pop(), lanes.pop(), lanes.pop()),
            (Some(21), Some(30), None)
        );
    }

    #[test]
    fn an_empty_lane_keeps_no_memory_of_a_flood() {
        let mut lanes = Lanes::new();
        for item in 0..100_000 {
            lanes.push(0, item);
        }
        while lanes.pop().is_some() {}
        assert_eq!((lanes.spare.capacity(), lanes.lanes.len()), (0, 0));
        lanes.push(0, 1);
        lanes.pop();
        assert!(lanes.spare.capacity() > 0, "what is small is used again");
    }
}
