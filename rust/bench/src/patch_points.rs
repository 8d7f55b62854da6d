//! Encoded bytes with points to patch, which are found once by search marks.

use std::ops::Range;

use super::request::Request;
use super::stamp::{STAMP_BYTES, Stamp};

/// A time of 13 digits, as all are from 2001 to 2286.
pub(super) const BORN_MARK: i64 = 9_876_543_210_123;
/// Mark for the unique key: 32 hexadecimal digits.
pub(super) const KEY_MARK: &str = "@KEY@@@@@@@@@@@@@@@@@@@@@@@@@@@@";
/// Mark for the stamp.
pub(super) const STAMP_MARK: &[u8; STAMP_BYTES] = b"@STAMP@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@";
/// The digits at the end of the name of one of several topics.
const TOPIC_DIGITS: usize = 6;

/// A frame, or the signed content of a frame.
#[derive(Debug, Clone)]
pub(super) struct PatchPoints {
    pub bytes: Vec<u8>,
    born: Range<usize>,
    queue: Range<usize>,
    /// Empty if there is only one topic.
    topic: Range<usize>,
    keys: Vec<usize>,
    stamps: Vec<usize>,
}

impl PatchPoints {
    /// Finds the points. `other` has the bytes for another queue, whose number has as many digits.
    /// The topic (None if there is only one) comes at `begin` or after.
    pub fn new(
        bytes: Vec<u8>,
        (other, queue_digits): (&[u8], usize),
        (topic, begin): (Option<&str>, usize),
    ) -> Self {
        let differ = |(mine, theirs): (&u8, &u8)| mine != theirs;
        let queue = bytes.iter().zip(other).position(differ).unwrap_or(0);
        let topic = topic.map_or(0..0, |name| {
            let end = begin + find(&bytes[begin..], name.as_bytes()).end;
            end - TOPIC_DIGITS..end
        });
        Self {
            born: find(&bytes, BORN_MARK.to_string().as_bytes()),
            queue: queue..queue + queue_digits,
            topic,
            keys: find_all(&bytes, KEY_MARK.as_bytes()),
            stamps: find_all(&bytes, STAMP_MARK),
            bytes,
        }
    }

    /// Patches the values that differ between requests.
    pub fn patch(&mut self, request: &Request, batch: u64, run: u64) {
        let bytes = &mut self.bytes;
        write_digits(request.born_ms, &mut bytes[self.born.clone()]);
        write_digits(request.queue.into(), &mut bytes[self.queue.clone()]);
        write_digits(request.topic.into(), &mut bytes[self.topic.clone()]);
        for (index, at) in self.keys.iter().enumerate() {
            // Unique for every message of every worker, in the form of RocketMQ's keys.
            let place = &mut bytes[*at..at + KEY_MARK.len()];
            write_hex(u64::from(request.worker), &mut place[..8]);
            write_hex(request.number, &mut place[8..24]);
            write_hex(index as u64, &mut place[24..]);
        }
        for (index, at) in self.stamps.iter().enumerate() {
            let stamp = Stamp {
                run,
                worker: request.worker,
                number: request.number * batch + index as u64,
                due: request.due,
            };
            stamp.write(&mut bytes[*at..at + STAMP_BYTES]);
        }
    }
}

/// The position of the first such mark; empty if none exists.
pub(super) fn find(bytes: &[u8], mark: &[u8]) -> Range<usize> {
    let found = bytes.windows(mark.len()).position(|window| window == mark);
    found.map_or(0..0, |start| start..start + mark.len())
}

fn find_all(bytes: &[u8], mark: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(mark.len()).enumerate();
    windows
        .filter(|(_, window)| *window == mark)
        .map(|(at, _)| at)
        .collect()
}

/// Writes a number's last digits.
pub(super) fn write_digits(mut number: i64, place: &mut [u8]) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

fn write_hex(mut number: u64, place: &mut [u8]) {
    for digit in place.iter_mut().rev() {
        *digit = b"0123456789ABCDEF"[(number & 15) as usize];
        number >>= 4;
    }
}
