//! Starts the writeback of dirty pages between two flushes, so that the next flush waits for less.
//!
//! Without it, a flush hands the disk the messages of half a second at once. With writeback in
//! parts, p99 of sends is a third at 200,000 messages per second.

use std::sync::Arc;
use std::time::Duration;

use super::ack::Acks;
use crate::threads::periodic::Pause;
use mq_base::clock::Clock;
use mq_log::Segments;

pub(crate) const PAGE_BYTES: u64 = 4096;

/// Fewer bytes are not worth a system call.
const PART_BYTES: u64 = 1 << 20;
/// Shortest time per part; measurements showed no gain from shorter ones.
const PART_TIME_MIN: Duration = Duration::from_millis(10);

/// The progress of writeback.
pub(crate) struct Writeback {
    log: Arc<Segments>,
    acks: Arc<Acks>,
    clock: Arc<dyn Clock>,
    /// End of the log when the current interval began.
    interval_start: u64,
    begun: u64,
}

impl Writeback {
    pub(crate) fn new(log: Arc<Segments>, acks: Arc<Acks>, clock: Arc<dyn Clock>) -> Self {
        let interval_start = log.max_offset();
        Self {
            log,
            acks,
            clock,
            interval_start,
            begun: interval_start,
        }
    }

    /// Spends an interval between two flushes, if enough bytes for several parts came in the last
    /// one. Returns false if there is nothing to do until the next flush, or the thread shall stop.
    /// On a slow disk the thread waits for it; then there are fewer parts, and the flush is late by
    /// at most one.
    pub(crate) fn run_until_next_flush(&mut self, interval: Duration, pause: &Pause) -> bool {
        let parts = self.parts(interval);
        if parts < 2 {
            return false;
        }
        let interval_ms = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX);
        let end_ms = self.clock.monotonic_ms().saturating_add(interval_ms);
        for _ in 1..parts {
            if self.left(end_ms) <= interval / parts {
                break;
            }
            if !pause.sleep(interval / parts) {
                return false;
            }
            self.begin();
        }
        pause.sleep(self.left(end_ms).min(interval / parts))
    }

    fn left(&self, end_ms: i64) -> Duration {
        let left_ms = end_ms.saturating_sub(self.clock.monotonic_ms());
        Duration::from_millis(u64::try_from(left_ms).unwrap_or(0))
    }

    /// The number of parts of an interval, from the bytes appended since the last call.
    fn parts(&mut self, interval: Duration) -> u32 {
        let end = self.log.max_offset();
        let bytes = end.saturating_sub(self.interval_start);
        self.interval_start = end;
        let most = interval.as_millis() / PART_TIME_MIN.as_millis();
        u32::try_from(most.min(u128::from(bytes / PART_BYTES))).unwrap_or(u32::MAX)
    }

    /// Starts the writeback of whole pages only, because the last page is still written to.
    fn begin(&mut self) {
        let end = self.log.max_offset();
        let from = self.begun.max(self.acks.flushed());
        let (from, to) = (from - from % PAGE_BYTES, end - end % PAGE_BYTES);
        if from < to {
            self.log.begin_sync(from, to);
            self.begun = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::sync::mpsc;

    use super::*;
    use crate::tests::test_rig::{Rig, rig_of_files};
    use crate::threads::periodic::Periodic;
    use mq_base::clock::SystemClock;
    use mq_log::testing::{Event, Kind};

    const FILE_SIZE: u64 = 16 << 20;
    const HALF_SECOND: Duration = Duration::from_millis(500);

    fn rig() -> Rig {
        rig_of_files(FILE_SIZE, SystemClock::shared())
    }

    fn ahead_of(rig: &Rig) -> Writeback {
        ahead_by(rig, SystemClock::shared())
    }

    fn ahead_by(rig: &Rig, clock: Arc<dyn Clock>) -> Writeback {
        let flusher = &rig.flusher;
        Writeback::new(Arc::clone(&flusher.log), Arc::clone(&flusher.acks), clock)
    }

    /// A clock that advances 200 ms per read, as if each part kept the disk busy for that time.
    #[derive(Default)]
    struct SlowParts(AtomicI64);

    const PART_TOOK_MS: i64 = 200;

    impl Clock for SlowParts {
        fn wall_ms(&self) -> i64 {
            0
        }

        fn monotonic_ms(&self) -> i64 {
            self.0.fetch_add(PART_TOOK_MS, Ordering::SeqCst)
        }
    }

    fn begun(rig: &Rig) -> Vec<(u64, u64)> {
        let part = |(kind, from, to): Event| (kind == Kind::BeginSync).then_some((from, to));
        rig.disk.hook.take().into_iter().filter_map(part).collect()
    }

    fn append(rig: &Rig, bytes: u64) {
        let from = rig.flusher.log.max_offset();
        while rig.flusher.log.max_offset() < from + bytes {
            rig.put(&[b'x'; 2_500]);
        }
    }

    #[test]
    fn whole_unflushed_pages_are_written_back_once() {
        let rig = rig();
        let mut ahead = ahead_of(&rig);
        append(&rig, 100_000);
        let first = rig.flusher.log.max_offset() / PAGE_BYTES * PAGE_BYTES;
        ahead.begin();
        ahead.begin();
        assert_eq!(begun(&rig), [(0, first)]);
        append(&rig, 100_000);
        assert!(rig.flusher.flush_all());
        let flushed = rig.flusher.log.max_offset() / PAGE_BYTES * PAGE_BYTES;
        ahead.begin();
        assert_eq!(begun(&rig), [], "all pages are durable");
        append(&rig, 100_000);
        let last = rig.flusher.log.max_offset() / PAGE_BYTES * PAGE_BYTES;
        ahead.begin();
        assert_eq!(begun(&rig), [(flushed, last)]);
    }

    #[test]
    fn pages_in_two_files_are_written_back_in_both() {
        let rig = rig();
        let mut ahead = ahead_of(&rig);
        append(&rig, FILE_SIZE + 100_000);
        let end = rig.flusher.log.max_offset() / PAGE_BYTES * PAGE_BYTES;
        ahead.begin();
        assert_eq!(begun(&rig), [(0, FILE_SIZE), (FILE_SIZE, end)]);
    }

    #[test]
    fn an_interval_has_one_part_per_megabyte_and_ten_ms() {
        let rig = rig();
        let mut ahead = ahead_of(&rig);
        for (bytes, parts) in [(1_000_000, 0), (2 << 20, 2), (60 << 20, 50)] {
            append(&rig, bytes);
            assert_eq!(ahead.parts(HALF_SECOND), parts, "{bytes}");
        }
        assert_eq!(ahead.parts(HALF_SECOND), 0, "no new bytes");
        append(&rig, 2 << 20);
        assert_eq!(
            ahead.parts(Duration::from_millis(5)),
            0,
            "the flush is sooner"
        );
    }

    #[test]
    fn an_interval_has_fewer_parts_on_a_slow_disk() {
        let rig = rig();
        let clock = Arc::new(SlowParts::default());
        let mut ahead = ahead_by(&rig, clock.clone());
        append(&rig, 60 << 20);
        let (sender, spent) = mpsc::channel();
        let services = Arc::default();
        let round = move |pause: &Pause| {
            sender
                .send(ahead.run_until_next_flush(HALF_SECOND, pause))
                .unwrap()
        };
        let thread = Periodic::start_pausing("test", HALF_SECOND, &services, round).unwrap();
        thread.wake();
        assert_eq!(spent.recv_timeout(Duration::from_secs(10)), Ok(true));
        drop(thread);
        // Read at the start, before each of two parts, and twice at the end. With a fast disk there
        // would be fifty parts.
        assert_eq!(clock.0.load(Ordering::SeqCst), 5 * PART_TOOK_MS);
    }
}
