//! Progress lines for long passes over many queues.

use std::sync::Arc;

use mq_base::clock::Clock;

/// Time between two lines, milliseconds.
const EVERY_MS: i64 = 2_000;

/// The number of queues that are done.
pub(crate) struct QueueProgress {
    clock: Arc<dyn Clock>,
    what: &'static str,
    done: usize,
    all: usize,
    told_ms: i64,
}

impl QueueProgress {
    /// A pass that has done no queue yet.
    pub(crate) fn new(clock: &Arc<dyn Clock>, what: &'static str, all: usize) -> Self {
        Self {
            clock: Arc::clone(clock),
            what,
            done: 0,
            all,
            told_ms: clock.monotonic_ms(),
        }
    }

    /// Counts a queue, and logs a line if one is due.
    pub(crate) fn step(&mut self) {
        if let Some(line) = self.next_line() {
            tracing::info!("{line}");
        }
    }

    fn next_line(&mut self) -> Option<String> {
        let now_ms = self.clock.monotonic_ms();
        let line = (now_ms - self.told_ms >= EVERY_MS).then(|| {
            self.told_ms = now_ms;
            format!("{}: {} of {}", self.what, self.done, self.all)
        });
        self.done += 1;
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mq_base::clock::ManualClock;

    #[test]
    fn a_long_pass_reports_its_progress_every_two_seconds() {
        let clock = ManualClock::at(0);
        let shared: Arc<dyn Clock> = clock.clone();
        let mut progress = QueueProgress::new(&shared, "loading consume queues", 3);
        assert_eq!(progress.next_line(), None);
        clock.advance(2_000);
        let line = progress.next_line().unwrap();
        assert_eq!(line, "loading consume queues: 1 of 3");
        assert_eq!(progress.next_line(), None);
    }
}
