//! Items in lanes, one for each client: lanes take turns, and the items of a lane keep their order.

use std::collections::{HashMap, VecDeque};

/// Room for this many items is kept of a lane that is empty again.
const KEPT_ITEMS: usize = 1_024;

/// The items of a queue. With one lane it is first in, first out.
#[derive(Debug)]
pub(super) struct Lanes<T> {
    /// No lane is empty.
    lanes: HashMap<u64, VecDeque<T>>,
    /// Every lane once; the first one is next.
    turns: VecDeque<u64>,
    len: usize,
    /// The memory of a lane that is empty again.
    spare: VecDeque<T>,
}

impl<T> Lanes<T> {
    pub(super) fn new() -> Self {
        Self {
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            len: 0,
            spare: VecDeque::new(),
        }
    }

    /// Items of all lanes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Items of one lane.
    pub(super) fn len_of(&self, lane: u64) -> usize {
        self.lanes.get(&lane).map_or(0, VecDeque::len)
    }

    pub(super) fn push(&mut self, lane: u64, item: T) {
        let items = self.lanes.entry(lane).or_insert_with(|| {
            self.turns.push_back(lane);
            std::mem::take(&mut self.spare)
        });
        items.push_back(item);
        self.len += 1;
    }

    /// Removes the first item of the lane whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        let lane = self.turns.pop_front()?;
        let item = self.take(lane);
        if self.lanes.contains_key(&lane) {
            self.turns.push_back(lane);
        }
        item
    }

    /// Removes an item that is first in its lane and that `wanted` accepts. The turns stay.
    pub(super) fn pop_if(&mut self, wanted: impl Fn(&T) -> bool) -> Option<T> {
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
    pub(super) fn fronts(&self) -> impl Iterator<Item = &T> {
        self.lanes.values().filter_map(VecDeque::front)
    }

    /// Removes all items, lane by lane.
    pub(super) fn drain(&mut self) -> VecDeque<T> {
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
    use super::*;

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
