//! What readers of old messages will want next is read from the disk before they ask for it.
//!
//! A pull that has to wait for the disk has what follows its records brought into memory, if these
//! lie close together: the pulls after it, and those of queues whose records lie between, need no
//! thread that may wait. The kernel's own reading ahead follows one reader of a file; many groups
//! and queues read a file of the log.

use std::collections::VecDeque;
use std::ops::Range;

use parking_lot::Mutex;

use super::is_within;
use mq_format::consume_queue::QueueEntry;
use mq_log::Segments;

/// Records closer than this are read with what lies between them: sixteen queues in turns with
/// records of 2 KiB.
const CLOSE_BYTES: u64 = 32 << 10;
/// Read ahead of a reader that was not seen before, and twice as much each time it gets there.
const FIRST_BYTES: u64 = 256 << 10;
/// Read ahead of a reader at most.
const WINDOW_BYTES_MAX: u64 = 2 << 20;
/// Readers followed at most; one more and the one forgotten longest goes. With the above what a
/// broker has read ahead and nobody has asked for is 64 MiB at most.
const STREAMS_MAX: usize = 32;

/// Readers that go forward through parts of the log that are not in memory.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead(Mutex<VecDeque<Stream>>);

/// One or more readers at about the same place.
#[derive(Debug)]
struct Stream {
    /// What the last step read ahead.
    read: Range<u64>,
    window: u64,
}

impl ReadAhead {
    /// Brings into memory what these units point to and what follows, if they lie together; else
    /// the disk is told of all of them before the first is waited for.
    pub(crate) fn read(&self, log: &Segments, entries: &[QueueEntry]) {
        let bounds = (
            log.min_offset().cast_signed(),
            log.max_offset().cast_signed(),
        );
        let mut ranges = self.ranges(entries, bounds);
        if let [range] = &mut ranges[..] {
            range.end = range.end.min(log.max_offset());
            while range.start < range.end {
                let to = range.end.min(log.next_file_start(range.start));
                log.bring(range.start, to);
                range.start = to;
            }
        } else {
            ranges
                .iter()
                .for_each(|range| log.will_read(range.start, range.end));
        }
    }

    /// What is to be read for these units; beyond them too if their records lie close together.
    /// Nothing for one, which can as well be read by itself.
    fn ranges(&self, entries: &[QueueEntry], log_bounds: (i64, i64)) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        let (mut bytes, mut count) = (0, 0);
        let is_there = |entry: &&QueueEntry| entry.size_bytes > 0 && is_within(entry, log_bounds);
        for entry in entries.iter().filter(is_there) {
            let wanted = entry.physical_offset.cast_unsigned()..entry.end_offset().cast_unsigned();
            bytes += wanted.end - wanted.start;
            count += 1;
            match runs.last_mut() {
                Some(run) if (run.end..=run.end + CLOSE_BYTES).contains(&wanted.start) => {
                    run.end = wanted.end;
                }
                _ => runs.push(wanted),
            }
            if bytes > WINDOW_BYTES_MAX {
                break;
            }
        }
        match &mut runs[..] {
            [_] if count == 1 => runs.clear(),
            [run] => *run = self.plan(run.clone()),
            _ => {}
        }
        runs
    }

    /// What is to be read because a reader has to wait for `wanted`; empty if it is on its way.
    fn plan(&self, wanted: Range<u64>) -> Range<u64> {
        let mut streams = self.0.lock();
        let follows = |stream: &Stream| {
            let reach = stream.read.start..=stream.read.end + CLOSE_BYTES;
            reach.contains(&wanted.start)
        };
        let known = streams.iter().position(follows);
        let (from, window) = match known.and_then(|at| streams.remove(at)) {
            Some(stream) if wanted.end <= stream.read.end => {
                let end = stream.read.end;
                streams.push_back(stream);
                return end..end;
            }
            Some(stream) => {
                let window = (stream.window * 2).min(WINDOW_BYTES_MAX);
                (stream.read.end, window)
            }
            None => (wanted.start, FIRST_BYTES),
        };
        if streams.len() >= STREAMS_MAX {
            streams.pop_front();
        }
        let read = from..wanted.end + window;
        streams.push_back(Stream {
            read: read.clone(),
            window,
        });
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn in_kib(range: Range<u64>) -> (u64, u64) {
        (range.start / KIB, range.end / KIB)
    }

    #[test]
    fn a_reader_that_goes_on_is_read_ahead_of_ever_further() {
        let ahead = ReadAhead::default();
        let plan = |from: u64, to: u64| in_kib(ahead.plan(from * KIB..to * KIB));
        assert_eq!(plan(1_000, 1_010), (1_000, 1_266), "one it does not know");
        let on_its_way = plan(1_040, 1_050);
        assert_eq!(on_its_way.0, on_its_way.1, "another queue's, between them");
        assert_eq!(plan(1_260, 1_270), (1_266, 1_782), "it got there");
        assert_eq!(plan(1_790, 1_800), (1_782, 2_824), "or a little further");
        assert_eq!(plan(2_824, 2_834), (2_824, 4_882));
        assert_eq!(plan(4_880, 4_890), (4_882, 6_938), "no more than that");
        assert_eq!(plan(1_000, 1_010), (1_000, 1_266), "begun again");
    }

    #[test]
    fn records_that_lie_apart_are_read_alone() {
        let entry = |at: u64, bytes: i32| QueueEntry {
            physical_offset: at.cast_signed(),
            size_bytes: bytes,
            tags_code: 0,
        };
        let ranges = |entries: &[QueueEntry]| {
            let ahead = ReadAhead::default();
            ahead.ranges(entries, (4_096, 1 << 30))
        };
        let apart = CLOSE_BYTES + 1;
        let read = ranges(&[
            entry(5_000, 200),
            entry(5_300, 100),
            entry(5_400 + apart, 10),
        ]);
        let last = 5_400 + apart;
        assert_eq!(read, [5_000..5_400, last..last + 10]);
        let read = ranges(&[entry(5_000, 200), entry(5_200 + CLOSE_BYTES, 100)]);
        let whole = 5_000..5_300 + CLOSE_BYTES + FIRST_BYTES;
        assert_eq!(read.as_slice(), std::slice::from_ref(&whole), "and on");
        let gone = [entry(0, 100), entry(5_000, -1), QueueEntry::FILLER];
        assert_eq!(ranges(&gone), []);
        assert_eq!(ranges(&[entry(5_000, 200)]), []);
        let many: Vec<_> = (0..100)
            .map(|at| entry((at * 2 + 1) << 20, 1 << 20))
            .collect();
        assert_eq!(ranges(&many).len(), 3, "no more than a window of them");
    }

    #[test]
    fn so_many_readers_are_followed_and_the_one_forgotten_longest_goes() {
        let ahead = ReadAhead::default();
        let plan = |reader: u64, at: u64| {
            let from = (reader << 30) + at;
            let plan = ahead.plan(from..from + KIB);
            plan.end - plan.start
        };
        let first = FIRST_BYTES + KIB;
        for reader in 0..STREAMS_MAX as u64 {
            assert_eq!(plan(reader, 0), first);
        }
        assert_eq!(plan(0, 0), 0, "on its way");
        assert_eq!(plan(99, 0), first);
        assert!(plan(0, FIRST_BYTES + KIB) > first);
        assert_eq!(plan(1, FIRST_BYTES + KIB), first, "forgotten");
        assert_eq!(ahead.0.lock().len(), STREAMS_MAX);
    }
}
