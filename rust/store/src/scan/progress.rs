//! Log lines about a long check of the log: its progress and its result.

use std::sync::Arc;

use mq_base::clock::Clock;

/// Time between two lines, milliseconds.
const EVERY_MS: i64 = 2_000;

/// Progress of the check of `[from, to)`.
pub(crate) struct Progress {
    clock: Arc<dyn Clock>,
    from: u64,
    to: u64,
    started_ms: i64,
    told_ms: i64,
}

impl Progress {
    pub(crate) fn new(clock: &Arc<dyn Clock>, from: u64, to: u64) -> Self {
        let now_ms = clock.monotonic_ms();
        Self {
            clock: Arc::clone(clock),
            from,
            to,
            started_ms: now_ms,
            told_ms: now_ms,
        }
    }

    /// The line that is due when the check has reached `offset`; None between two lines.
    pub(crate) fn line_at(&mut self, offset: u64) -> Option<String> {
        let now_ms = self.clock.monotonic_ms();
        if now_ms - self.told_ms < EVERY_MS {
            return None;
        }
        self.told_ms = now_ms;
        let (done, all) = (offset.saturating_sub(self.from), self.to - self.from);
        Some(format!(
            "checking the commit log: {} of {all} bytes",
            done.min(all)
        ))
    }

    /// The result line of a check that ended at `offset`; None for an empty log.
    pub(crate) fn last_line(&self, offset: u64, repaired: usize) -> Option<String> {
        let bytes = offset.saturating_sub(self.from);
        if bytes == 0 {
            return None;
        }
        let took_ms = self.clock.monotonic_ms() - self.started_ms;
        let found = match repaired {
            0 => "no damage".to_owned(),
            1 => "1 damaged range, overwritten with blank records".to_owned(),
            many => format!("{many} damaged ranges, overwritten with blank records"),
        };
        Some(format!(
            "checked {bytes} bytes of the commit log from offset {} in {took_ms} ms: {found}",
            self.from
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mq_base::clock::ManualClock;

    #[test]
    fn a_long_check_reports_its_progress_every_two_seconds() {
        let clock = ManualClock::at(0);
        let shared: Arc<dyn Clock> = clock.clone();
        let mut progress = Progress::new(&shared, 1_000, 4_000);
        clock.advance(1_999);
        assert_eq!(progress.line_at(1_500), None);
        clock.advance(1);
        let line = progress.line_at(2_000).unwrap();
        assert_eq!(line, "checking the commit log: 1000 of 3000 bytes");
        assert_eq!(progress.line_at(2_500), None);
        clock.advance(2_000);
        // The expected end was too early.
        let line = progress.line_at(9_000).unwrap();
        assert_eq!(line, "checking the commit log: 3000 of 3000 bytes");
        clock.advance(500);
        assert_eq!(
            progress.last_line(4_000, 0).unwrap(),
            "checked 3000 bytes of the commit log from offset 1000 in 4500 ms: no damage"
        );
        let line = progress.last_line(4_000, 2).unwrap();
        assert!(line.ends_with(": 2 damaged ranges, overwritten with blank records"));
        assert_eq!(progress.last_line(1_000, 0), None);
    }
}
