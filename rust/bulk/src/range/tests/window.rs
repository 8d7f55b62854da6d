//! The window against a model of a queue; replies arrive in any order.

use mq_format::codes::{PULL_OFFSET_MOVED, PULL_RETRY_IMMEDIATELY, SUCCESS};
use proptest::collection::btree_set;
use proptest::prelude::*;

use super::model::{QUEUE, Queue, record};
use crate::range::check::Rules;
use crate::range::window::{Load, Pull, Reply, Window};
use crate::range::{Limits, LossKind, Part};

const LIMITS: Limits = Limits {
    count_max: 100,
    in_flight_max: 4,
    waiting_bytes_max: 1 << 20,
};

fn window(first: i64, end: i64, is_filtered: bool, limits: Limits) -> Window {
    Window::new(first, end, Rules::new("T", QUEUE, is_filtered), limits)
}

/// Reads the whole range, one reply and one part at a time; `choose` picks which pull is answered.
fn read(
    window: &mut Window,
    load: &mut Load,
    queue: &Queue,
    mut choose: impl FnMut() -> usize,
) -> Vec<Part> {
    let (mut parts, mut in_flight, mut pulls) = (Vec::new(), Vec::<Pull>::new(), 0);
    while !window.is_done() {
        while let Some(pull) = window.next_pull(load, true) {
            in_flight.push(pull);
            pulls += 1;
            assert!(pulls < 100_000, "it pulls without end");
        }
        assert_eq!(load.in_flight, in_flight.len());
        if in_flight.is_empty() {
            parts.push(
                window
                    .take(load)
                    .expect("nothing in flight and nothing to take"),
            );
            continue;
        }
        let pull = in_flight.swap_remove(choose() % in_flight.len());
        let reply = queue.pull(pull.offset, pull.count.into());
        window.answer(pull, reply, load);
        if choose().is_multiple_of(2) {
            parts.extend(window.take(load));
        }
    }
    parts
}

/// Returns all records of the parts, which must follow one another from `first` to `end`.
fn joined(parts: &[Part], first: i64, end: i64) -> Vec<u8> {
    let mut at = first;
    for part in parts {
        assert_eq!(part.first, at);
        assert!(part.next > at);
        at = part.next;
    }
    assert_eq!(at, end);
    parts.iter().flat_map(|part| part.records.clone()).collect()
}

fn records(offsets: impl Iterator<Item = i64>) -> Vec<u8> {
    offsets.flat_map(record).collect()
}

#[test]
fn the_first_reply_sets_the_length_of_later_pulls() {
    let mut window = window(0, 1000, false, LIMITS);
    let mut load = Load::default();
    let first = window.next_pull(&mut load, true).unwrap();
    assert_eq!((first.offset, first.count), (0, 100));
    assert_eq!(window.next_pull(&mut load, true), None);
    window.answer(first, Queue::whole(0, 1000, 64).pull(0, 100), &mut load);
    let offsets: Vec<_> = std::iter::from_fn(|| window.next_pull(&mut load, true))
        .map(|pull| (pull.offset, pull.count))
        .collect();
    assert_eq!(offsets, [(64, 64), (128, 64), (192, 64), (256, 64)]);
}

#[test]
fn waiting_results_are_limited_in_bytes() {
    let limits = Limits {
        waiting_bytes_max: 10_000,
        ..LIMITS
    };
    let (mut window, queue) = (window(0, 5000, false, limits), Queue::whole(0, 5000, 16));
    let mut load = Load::default();
    let mut one_reply = 0;
    while let Some(pull) = window.next_pull(&mut load, true) {
        let reply = queue.pull(pull.offset, pull.count.into());
        one_reply = one_reply.max(reply.body.len() + 256);
        window.answer(pull, reply, &mut load);
    }
    assert!(load.waiting_bytes < 10_000 + one_reply);
    assert!(load.waiting_bytes > 5000);
    let parts = read(&mut window, &mut load, &queue, || 0);
    assert_eq!(joined(&parts, 0, 5000), records(0..5000));
}

#[test]
fn records_around_a_damaged_one_are_read() {
    let mut queue = Queue::whole(0, 300, 32);
    queue.damaged = [0, 40, 41, 299].into();
    let parts = read(
        &mut window(0, 300, false, LIMITS),
        &mut Load::default(),
        &queue,
        || 0,
    );
    let left = (0..300).filter(|offset| !queue.damaged.contains(offset));
    assert_eq!(joined(&parts, 0, 300), records(left));
    let losses: Vec<_> = parts.iter().flat_map(|part| &part.losses).collect();
    assert!(losses.iter().all(|loss| loss.count == 1));
    assert!(
        losses
            .iter()
            .all(|loss| matches!(loss.kind, LossKind::Damaged(_)))
    );
    let offsets: Vec<_> = losses.iter().map(|loss| loss.offset).collect();
    assert_eq!(offsets, [0, 40, 41, 299]);
    let text = losses[0].to_string();
    assert!(
        text.starts_with("the message at offset 0 is damaged or lost: body CRC"),
        "{text}"
    );
}

#[test]
fn damage_in_a_single_reply_is_not_a_loss() {
    let (mut window, queue) = (window(0, 3, false, LIMITS), Queue::whole(0, 3, 32));
    let mut load = Load::default();
    let pull = window.next_pull(&mut load, true).unwrap();
    let mut reply = queue.pull(0, 3);
    let at = reply.body.len() - 5;
    reply.body[at] ^= 1;
    window.answer(pull, reply, &mut load);
    let parts = read(&mut window, &mut load, &queue, || 0);
    assert_eq!(joined(&parts, 0, 3), records(0..3));
    assert!(parts.iter().all(|part| part.losses.is_empty()));
}

#[test]
fn deleted_offsets_are_reported_and_the_rest_is_read() {
    let mut queue = Queue::whole(250, 500, 32);
    queue.missing = [300, 301].into();
    let parts = read(
        &mut window(0, 500, false, LIMITS),
        &mut Load::default(),
        &queue,
        || 0,
    );
    let left = (250..500).filter(|offset| queue.has(*offset));
    assert_eq!(joined(&parts, 0, 500), records(left));
    assert_eq!(
        parts[0].losses[0].to_string(),
        "offset 0 is gone, the broker goes on at 250"
    );
    let missing = parts.iter().flat_map(|part| &part.losses).skip(1);
    assert_eq!(missing.map(|loss| loss.count).sum::<i64>(), 2);
}

#[test]
fn a_reply_that_does_not_advance_does_not_loop() {
    for code in [SUCCESS, PULL_RETRY_IMMEDIATELY, PULL_OFFSET_MOVED] {
        for is_filtered in [false, true] {
            let mut window = window(0, 250, is_filtered, LIMITS);
            let mut load = Load::default();
            let mut lost = 0;
            while let Some(pull) = window.next_pull(&mut load, true) {
                let (next, body) = (0, Vec::new());
                window.answer(pull, Reply { code, next, body }, &mut load);
                let part = window.take(&mut load).unwrap();
                lost += part.losses[0].count;
            }
            assert!(window.is_done());
            assert_eq!(lost, 250);
        }
    }
}

#[test]
fn a_record_of_another_place_is_damaged() {
    let mut window = window(7, 8, false, LIMITS);
    let mut load = Load::default();
    for _ in ["a pull of all", "a pull of one"] {
        let pull = window.next_pull(&mut load, true).unwrap();
        let reply = Reply {
            code: SUCCESS,
            next: 8,
            body: record(6),
        };
        window.answer(pull, reply, &mut load);
    }
    let part = window.take(&mut load).unwrap();
    assert!(part.records.is_empty());
    let text = part.losses[0].to_string();
    assert!(
        text.ends_with("its queue offset is 6, outside 7 to 8"),
        "{text}"
    );
    assert!(window.is_done());
}

proptest! {
    #[test]
    fn every_range_is_read_once_and_in_order(
        first in 0i64..50,
        length in 0i64..600,
        gives in 1i64..80,
        scans in 1i64..200,
        matches in proptest::option::of(btree_set(0i64..700, 0..200)),
        damaged in btree_set(0i64..700, 0..10),
        missing in btree_set(0i64..700, 0..10),
        gone in 0i64..100,
        waiting_bytes_max in 0usize..20_000,
        in_flight_max in 1usize..9,
        choices in proptest::collection::vec(any::<u8>(), 1..50),
    ) {
        let end = first + length;
        let queue = Queue { first: gone, end: 700, gives, scans, matches, damaged, missing };
        let limits = Limits { count_max: 50, in_flight_max, waiting_bytes_max };
        let mut window = window(first, end, queue.matches.is_some(), limits);
        let (mut choices, mut load) = (choices.iter().cycle(), Load::default());
        let parts = read(&mut window, &mut load, &queue, || usize::from(*choices.next().unwrap()));
        let there = |offset: &i64| queue.has(*offset) && !queue.damaged.contains(offset);
        prop_assert_eq!(joined(&parts, first, end), records((first..end).filter(there)));
        let lost: i64 = parts.iter().flat_map(|part| &part.losses).map(|loss| loss.count).sum();
        let messages: i64 = parts.iter().map(|part| part.messages).sum();
        if queue.matches.is_none() {
            prop_assert_eq!(lost + messages, length);
        }
    }
}
