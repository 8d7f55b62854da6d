//! Bytes per second: measured, and limited.

/// Seconds over which a rate is measured.
const SECONDS: usize = 10;

/// Counts bytes, and knows the rate of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    total: u64,
    /// Bytes by second; the second of a slot is its index plus a multiple of the length.
    slots: [(i64, u64); SECONDS],
}

impl Meter {
    /// Adds bytes that passed at this time, monotonic milliseconds.
    pub(crate) fn count(&mut self, bytes: usize, now_ms: i64) {
        let second = now_ms / 1_000;
        let slot = &mut self.slots[(second.unsigned_abs() % SECONDS as u64) as usize];
        if slot.0 != second {
            *slot = (second, 0);
        }
        slot.1 += bytes as u64;
        self.total += bytes as u64;
    }

    /// All bytes.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Bytes per second, over the last ten whole or partial seconds.
    pub(crate) fn rate(&self, now_ms: i64) -> u64 {
        let now = now_ms / 1_000;
        let recent = self
            .slots
            .iter()
            .filter(|slot| now - slot.0 < SECONDS as i64);
        recent.map(|slot| slot.1).sum::<u64>() / SECONDS as u64
    }
}

/// Limits bytes per second.
#[derive(Debug)]
pub(crate) struct Limit {
    /// `haMaxBytesPerSecond`; 0 for no limit.
    bytes_per_second: u64,
    /// Time at which everything sent so far is paid for.
    paid_ms: i64,
}

impl Limit {
    /// No bytes were sent yet.
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second,
            paid_ms: 0,
        }
    }

    /// Most bytes to send before the next pause: the limit's bytes of half a second.
    pub(crate) fn share(&self) -> usize {
        match self.bytes_per_second {
            0 => usize::MAX,
            limit => usize::try_from(limit / 2).unwrap_or(usize::MAX).max(1),
        }
    }

    /// Adds bytes that are sent now; returns the milliseconds to pause afterwards.
    pub(crate) fn pause_ms(&mut self, bytes: usize, now_ms: i64) -> u64 {
        if self.bytes_per_second == 0 {
            return 0;
        }
        let cost_ms = (bytes as u64 * 1_000).div_ceil(self.bytes_per_second);
        self.paid_ms = self.paid_ms.max(now_ms).saturating_add_unsigned(cost_ms);
        self.paid_ms.saturating_sub(now_ms).unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_forgets_what_is_older_than_ten_seconds() {
        let mut meter = Meter::default();
        for second in 0..20 {
            meter.count(500, second * 1_000);
            meter.count(500, second * 1_000 + 999);
        }
        assert_eq!((meter.rate(19_999), meter.total()), (1_000, 20_000));
        assert_eq!((meter.rate(24_999), meter.rate(40_000)), (500, 0));
    }

    #[test]
    fn a_limit_pauses_for_what_was_sent() {
        let mut limit = Limit::new(10_000);
        assert_eq!(limit.pause_ms(1_000, 5_000), 100);
        assert_eq!(limit.pause_ms(1_000, 5_050), 150);
        assert_eq!(limit.pause_ms(1_000, 9_000), 100);
        assert_eq!(Limit::new(0).pause_ms(usize::MAX, 0), 0);
    }

    #[test]
    fn shares_with_their_pauses_keep_to_any_limit() {
        for limit in [1, 3, 1_000, 100_000, 10 << 20] {
            let mut bytes = Limit::new(limit);
            let (mut sent, mut now_ms) = (0, 7_000);
            while now_ms < 107_000 {
                let share = bytes.share().min(256 << 10);
                sent += share as u64;
                let pause_ms = bytes.pause_ms(share, now_ms);
                assert!(pause_ms <= 1_000, "the connection stays alive");
                now_ms += pause_ms.cast_signed();
            }
            assert!(sent <= limit * 101 && sent >= limit * 99, "{limit}: {sent}");
        }
        assert_eq!(Limit::new(0).share(), usize::MAX);
    }
}
