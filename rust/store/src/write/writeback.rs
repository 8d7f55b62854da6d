//! Has the disk begin, between two flushes, with what the next one would wait for.
//!
//! A flush hands it half a second's messages in one row. In parts, one in a hundred sends takes a
//! third of the time at 200,000 messages a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ack::Acks;
use crate::threads::periodic::Pause;
use mq_log::{Files, Segments};

pub(crate) const PAGE_BYTES: u64 = 4096;

/// Fewer bytes are not worth a call of their own.
const PART_BYTES: u64 = 1 << 20;
/// However much comes: at ten milliseconds nothing was left to gain from fewer.
const PART_TIME_MIN: Duration = Duration::from_millis(10);

/// How far the disk was told to begin.
pub(crate) struct AheadOfFlush<F: Files> {
    log: Arc<Segments<F>>,
    acks: Arc<Acks>,
    /// End of the log when the present interval began.
    interval_start: u64,
    begun: u64,
}

impl<F: Files> AheadOfFlush<F> {
    pub(crate) fn new(log: Arc<Segments<F>>, acks: Arc<Acks>) -> Self {
        let interval_start = log.max_offset();
        Self {
            log,
            acks,
            interval_start,
            begun: interval_start,
        }
    }

    /// Spends an interval between flushes, if as much came in the last one as makes several parts;
    /// false if there is nothing to do until the next flush, or never again. A slow disk lets the
    /// thread wait for it: then there are fewer parts, and the flush is not late for more than one.
    pub(crate) fn spend(&mut self, interval: Duration, pause: &Pause) -> bool {
        let parts = self.parts(interval);
        if parts < 2 {
            return false;
        }
        let end = Instant::now() + interval;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left <= interval / parts {
                return pause.sleep(left);
            }
            if !pause.sleep(interval / parts) {
                return false;
            }
            self.begin();
        }
    }

    /// Into how many parts the bytes that came since the last call divide an interval.
    fn parts(&mut self, interval: Duration) -> u32 {
        let end = self.log.max_offset();
        let bytes = end.saturating_sub(self.interval_start);
        self.interval_start = end;
        let most = interval.as_millis() / PART_TIME_MIN.as_millis();
        u32::try_from(most.min(u128::from(bytes / PART_BYTES))).unwrap_or(u32::MAX)
    }

    /// Whole pages only: those are not written again.
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
    use super::*;
    use crate::tests::test_rig::{Rig, rig_of_files};
    use mq_base::clock::SystemClock;
    use mq_log::{Event, Memory, Recording};

    const FILE_SIZE: u64 = 16 << 20;
    const HALF_SECOND: Duration = Duration::from_millis(500);

    fn recorded() -> (Recording<Memory>, Rig<Recording<Memory>>) {
        let files = Recording::new(Memory::default());
        let rig = rig_of_files(files.clone(), FILE_SIZE, SystemClock::shared());
        (files, rig)
    }

    fn ahead_of<F: Files>(rig: &Rig<F>) -> AheadOfFlush<F> {
        let flusher = &rig.flusher;
        AheadOfFlush::new(Arc::clone(&flusher.log), Arc::clone(&flusher.acks))
    }

    fn begun(files: &Recording<Memory>) -> Vec<(u64, u64)> {
        let part = |event| match event {
            Event::BeginSync(from, to) => Some((from, to)),
            _ => None,
        };
        files.take().into_iter().filter_map(part).collect()
    }

    fn append(rig: &Rig<Recording<Memory>>, bytes: u64) {
        let from = rig.flusher.log.max_offset();
        while rig.flusher.log.max_offset() < from + bytes {
            rig.put(&[b'x'; 2_500]);
        }
    }

    #[test]
    fn whole_pages_are_begun_once_and_not_what_is_flushed() {
        let (files, rig) = recorded();
        let mut ahead = ahead_of(&rig);
        append(&rig, 100_000);
        let first = rig.flusher.log.max_offset() / PAGE_BYTES * PAGE_BYTES;
        ahead.begin();
        ahead.begin();
        assert_eq!(begun(&files), [(0, first)]);
        append(&rig, 100_000);
        assert!(rig.flusher.flush_all());
        let flushed = rig.flusher.log.max_offset() / PAGE_BYTES * PAGE_BYTES;
        ahead.begin();
        assert_eq!(begun(&files), [], "all of it is durable");
        append(&rig, 100_000);
        let last = rig.flusher.log.max_offset() / PAGE_BYTES * PAGE_BYTES;
        ahead.begin();
        assert_eq!(begun(&files), [(flushed, last)]);
    }

    #[test]
    fn what_lies_in_two_files_is_begun_in_both() {
        let (files, rig) = recorded();
        let mut ahead = ahead_of(&rig);
        append(&rig, FILE_SIZE + 100_000);
        let end = rig.flusher.log.max_offset() / PAGE_BYTES * PAGE_BYTES;
        ahead.begin();
        assert_eq!(begun(&files), [(0, FILE_SIZE), (FILE_SIZE, end)]);
    }

    #[test]
    fn an_interval_has_a_part_for_each_megabyte_and_at_most_one_in_ten_milliseconds() {
        let (_, rig) = recorded();
        let mut ahead = ahead_of(&rig);
        for (bytes, parts) in [(1_000_000, 0), (2 << 20, 2), (60 << 20, 50)] {
            append(&rig, bytes);
            assert_eq!(ahead.parts(HALF_SECOND), parts, "{bytes}");
        }
        assert_eq!(ahead.parts(HALF_SECOND), 0, "nothing came");
        append(&rig, 2 << 20);
        assert_eq!(ahead.parts(Duration::from_millis(5)), 0, "flushed sooner");
    }
}
