//! Reads ahead for consumers of old messages.
//!
//! A pull that must wait for the disk also loads the bytes after its records, if the records are
//! close together. Later pulls, and pulls of queues with records in between, then find their
//! records in memory and need no blocking thread. The kernel's readahead follows one reader per
//! file, but many groups and queues read a log file at the same time.

use std::collections::VecDeque;
use std::ops::Range;

use parking_lot::Mutex;

use super::is_within;
use mq_format::consume_queue::QueueEntry;
use mq_log::Segments;

/// Largest gap between records that are loaded together with the bytes between them: sixteen queues
/// in turn with records of 2 KiB.
const CLOSE_BYTES: u64 = 32 << 10;
/// Bytes read ahead of a new reader. The window doubles each time the reader reaches its end.
const FIRST_BYTES: u64 = 256 << 10;
/// Largest window of a reader.
const WINDOW_BYTES_MAX: u64 = 2 << 20;
/// Most readers that are followed; a new one replaces the least recently used. With the window
/// above, a broker reads at most 64 MiB that no consumer has asked for.
const STREAMS_MAX: usize = 32;

/// Readers that move forward through parts of the log that are not in memory.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead(Mutex<VecDeque<Stream>>);

/// One or more readers at about the same offset.
#[derive(Debug)]
struct Stream {
    /// The range that the last step read ahead.
    read: Range<u64>,
    window: u64,
}

impl ReadAhead {
    /// Loads the records of these entries and the bytes after them if the records are close
    /// together. Otherwise gives the kernel a hint about each record, before the caller blocks on
    /// the first.
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

    /// The ranges to load for these entries, extended by the window if the records are close
    /// together. Empty for a single record, which is read without a hint.
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

    /// The range to load because a reader must wait for `wanted`; empty if it is being loaded
    /// already.
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
    fn the_window_of_a_steady_reader_grows() {
        let ahead = ReadAhead::default();
        let plan = |from: u64, to: u64| in_kib(ahead.plan(from * KIB..to * KIB));
        assert_eq!(plan(1_000, 1_010), (1_000, 1_266), "a new reader");
        let on_its_way = plan(1_040, 1_050);
        assert_eq!(on_its_way.0, on_its_way.1, "loaded already");
        assert_eq!(
            plan(1_260, 1_270),
            (1_266, 1_782),
            "at the end of the window"
        );
        assert_eq!(plan(1_790, 1_800), (1_782, 2_824), "a little further");
        assert_eq!(plan(2_824, 2_834), (2_824, 4_882));
        assert_eq!(plan(4_880, 4_890), (4_882, 6_938), "the largest window");
        assert_eq!(plan(1_000, 1_010), (1_000, 1_266), "a new reader again");
    }

    #[test]
    fn records_far_apart_are_read_alone() {
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
        assert_eq!(
            read.as_slice(),
            std::slice::from_ref(&whole),
            "and a window"
        );
        let gone = [entry(0, 100), entry(5_000, -1), QueueEntry::HOLE];
        assert_eq!(ranges(&gone), []);
        assert_eq!(ranges(&[entry(5_000, 200)]), []);
        let many: Vec<_> = (0..100)
            .map(|at| entry((at * 2 + 1) << 20, 1 << 20))
            .collect();
        assert_eq!(ranges(&many).len(), 3, "at most one window");
    }

    #[test]
    fn the_least_recently_used_reader_is_dropped() {
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
        assert_eq!(plan(0, 0), 0, "loaded already");
        assert_eq!(plan(99, 0), first);
        assert!(plan(0, FIRST_BYTES + KIB) > first);
        assert_eq!(plan(1, FIRST_BYTES + KIB), first, "dropped");
        assert_eq!(ahead.0.lock().len(), STREAMS_MAX);
    }
}
