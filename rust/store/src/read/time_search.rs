//! Finding a queue offset by store time.

use std::ops::Range;

/// RocketMQ 4.9's answer: the offset stored at that time, else of the two around it the nearer
/// one, the earlier at a tie; the first or last where all are later or earlier. 0 for an empty
/// range. `store_time` is None where a unit has no record.
///
/// RocketMQ picks a queue file by its modification time first, which a rebuilt or copied queue
/// has lost; this searches the whole queue.
pub(crate) fn offset_by_time(
    range: Range<i64>,
    timestamp_ms: i64,
    store_time: impl Fn(i64) -> Option<i64>,
) -> i64 {
    let Range { mut start, mut end } = range;
    let (mut earlier, mut later) = (None, None);
    while start < end {
        let middle = i64::midpoint(start, end);
        match store_time(middle) {
            Some(time) if time == timestamp_ms => return middle,
            Some(time) if time > timestamp_ms => {
                later = Some((middle, time));
                end = middle;
            }
            Some(time) => {
                earlier = Some((middle, time));
                start = middle + 1;
            }
            None => start = middle + 1,
        }
    }
    match (earlier, later) {
        (Some((left, before)), Some((right, after))) => {
            if timestamp_ms - before > after - timestamp_ms {
                right
            } else {
                left
            }
        }
        (Some((only, _)), None) | (None, Some((only, _))) => only,
        (None, None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: [i64; 5] = [100, 200, 200, 300, 500];

    fn at(timestamp_ms: i64) -> i64 {
        offset_by_time(10..15, timestamp_ms, |offset| {
            TIMES.get(usize::try_from(offset - 10).ok()?).copied()
        })
    }

    #[test]
    fn exact_nearest_first_and_last() {
        assert_eq!(at(300), 13);
        assert!((11..=12).contains(&at(200)));
        assert_eq!(at(390), 13);
        assert_eq!(at(400), 13, "a tie goes to the earlier");
        assert_eq!(at(401), 14);
        assert_eq!(at(0), 10);
        assert_eq!(at(9_999), 14);
        assert_eq!(offset_by_time(0..0, 1, |_| None), 0);
        assert_eq!(offset_by_time(0..3, 1, |_| None), 0);
    }
}
