//! The delay level table: `messageDelayLevel`, e.g. `1s 5s 10s 30s 1m`.

/// Delays by level, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelayLevels {
    delays_ms: Vec<i64>,
}

impl DelayLevels {
    /// Reads delays with unit `s`, `m`, `h` or `d`, separated by spaces; None if there are none or
    /// one is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let delays_ms = text
            .split_whitespace()
            .map(parse_delay_ms)
            .collect::<Option<Vec<_>>>()?;
        (!delays_ms.is_empty()).then_some(Self { delays_ms })
    }

    /// Returns the highest level.
    pub fn max_level(&self) -> i32 {
        i32::try_from(self.delays_ms.len()).unwrap_or(i32::MAX)
    }

    /// Returns the level, or the highest level of the table if it is lower.
    pub fn clamp(&self, level: i32) -> i32 {
        level.min(self.max_level())
    }

    /// Returns the delivery time of a message of `level` (above 0) stored at `store_timestamp_ms`.
    pub fn deliver_at_ms(&self, level: i32, store_timestamp_ms: i64) -> i64 {
        let index = usize::try_from(self.clamp(level) - 1).ok();
        // A level that the table does not have means one second, as in RocketMQ.
        let delay_ms = index
            .and_then(|index| self.delays_ms.get(index))
            .copied()
            .unwrap_or(1_000);
        store_timestamp_ms + delay_ms
    }

    /// Returns the delivery time of a message of `level` whose queue entry says `due_ms`. That is
    /// now, if `due_ms` is later than the level's delay from now: then the clock was set back, or
    /// the table changed.
    pub fn believed_due_ms(&self, level: i32, due_ms: i64, now_ms: i64) -> i64 {
        if due_ms > self.deliver_at_ms(level, now_ms) {
            now_ms
        } else {
            due_ms
        }
    }
}

fn parse_delay_ms(text: &str) -> Option<i64> {
    let unit = text.chars().last()?;
    let unit_ms = match unit {
        's' => 1_000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 86_400_000,
        _ => return None,
    };
    let count: i64 = text[..text.len() - 1].parse().ok()?;
    count.checked_mul(unit_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_count_from_one_and_stop_at_the_last() {
        let levels = DelayLevels::parse("1s 5s 1m 2h 1d").unwrap();
        assert_eq!(levels.max_level(), 5);
        assert_eq!(levels.deliver_at_ms(1, 10), 1_010);
        assert_eq!(levels.deliver_at_ms(3, 0), 60_000);
        assert_eq!(levels.deliver_at_ms(99, 0), 86_400_000);
        assert_eq!(levels.clamp(99), 5);
        assert_eq!(levels.deliver_at_ms(0, 0), 1_000);
        assert_eq!(levels.believed_due_ms(2, 5_000, 0), 5_000);
        assert_eq!(levels.believed_due_ms(2, 5_001, 0), 0);
    }

    #[test]
    fn a_bad_table_is_refused() {
        for text in [
            "",
            " ",
            "1",
            "s",
            "1x",
            "1s,2s",
            "99999999999999999d",
            "1s é",
        ] {
            assert_eq!(DelayLevels::parse(text), None, "{text}");
        }
    }
}
