//! How many offsets one pull covers, adapted to the replies.

/// Consecutive full replies after which a longer pull is tried: a broker's byte limits depend on
/// the sizes of the messages, and on whether they are in memory.
const GROW_AFTER: u32 = 64;
/// Largest number of offsets in one block of a filtered range.
const FILTERED_MAX: i64 = 65_536;

/// Number of offsets in the next block.
#[derive(Debug)]
pub(super) struct Stride {
    offsets: i64,
    is_known: bool,
    full_replies: u32,
    count_max: i64,
    is_filtered: bool,
}

impl Stride {
    pub fn new(count_max: i64, is_filtered: bool) -> Self {
        Self {
            offsets: count_max.max(1),
            is_known: false,
            full_replies: 0,
            count_max: count_max.max(1),
            is_filtered,
        }
    }

    pub fn offsets(&self) -> i64 {
        self.offsets
    }

    /// Whether a reply has shown how many messages the broker returns at a time.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Records a reply to a pull of `asked` messages; the next pull begins `covered` offsets later.
    pub fn learn(&mut self, asked: i64, covered: i64) {
        if self.is_filtered {
            self.offsets = covered.clamp(1, FILTERED_MAX);
        } else if covered < asked {
            self.offsets = covered.max(1);
            self.full_replies = 0;
        } else {
            self.full_replies += 1;
            if self.full_replies >= GROW_AFTER {
                self.offsets = (self.offsets * 2).min(self.count_max);
                self.full_replies = 0;
            }
        }
        self.is_known = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_reply_sets_the_stride_and_full_ones_let_it_grow() {
        let mut stride = Stride::new(100, false);
        assert_eq!((stride.offsets(), stride.is_known()), (100, false));
        stride.learn(100, 32);
        assert_eq!((stride.offsets(), stride.is_known()), (32, true));
        let mut lengths = Vec::new();
        for _ in 0..3 * GROW_AFTER {
            stride.learn(stride.offsets(), stride.offsets());
            lengths.push(stride.offsets());
        }
        lengths.dedup();
        assert_eq!(lengths, [32, 64, 100]);
    }

    #[test]
    fn a_filtered_range_advances_by_the_offsets_of_a_reply() {
        let mut stride = Stride::new(100, true);
        for (covered, offsets) in [(5000, 5000), (20, 20), (1 << 40, FILTERED_MAX)] {
            stride.learn(100, covered);
            assert_eq!(stride.offsets(), offsets);
        }
    }
}
