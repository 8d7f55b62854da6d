//! RocketMQ's unique message ids (`MessageClientIDSetter`): 32 digits, never repeated.

/// Origin of ids: each generator of ids has its own.
#[derive(Debug, Clone)]
pub struct IdOrigin {
    /// 20 upper-case hexadecimal digits: address, process, and a random number.
    pub prefix: [u8; 20],
    /// The start of the month, milliseconds since the epoch.
    pub month_ms: i64,
}

/// Generates ids from the origin, the time and a counter.
#[derive(Debug)]
pub(super) struct Ids {
    origin: IdOrigin,
    counter: u16,
}

impl Ids {
    pub fn new(origin: IdOrigin) -> Self {
        Self { origin, counter: 0 }
    }

    /// Returns the next id. It is unique unless a millisecond has more than 65,536 ids.
    pub fn next(&mut self, now_ms: i64) -> [u8; 32] {
        let mut id = [0; 32];
        id[..20].copy_from_slice(&self.origin.prefix);
        let since = (now_ms - self.origin.month_ms) as u32;
        write_digits(since, &mut id[20..28]);
        write_digits(self.counter.into(), &mut id[28..]);
        self.counter = self.counter.wrapping_add(1);
        id
    }
}

fn write_digits(mut number: u32, place: &mut [u8]) {
    for digit in place.iter_mut().rev() {
        *digit = b"0123456789ABCDEF"[number as usize & 15];
        number >>= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_origin_time_and_count() {
        let origin = IdOrigin {
            prefix: *b"7F00000112340AB0CD0E",
            month_ms: 1_000_000,
        };
        let mut ids = Ids::new(origin);
        assert_eq!(&ids.next(1_000_000), b"7F00000112340AB0CD0E000000000000");
        assert_eq!(&ids.next(1_000_027), b"7F00000112340AB0CD0E0000001B0001");
        ids.counter = u16::MAX;
        assert_eq!(&ids.next(1_000_027)[28..], b"FFFF");
        assert_eq!(&ids.next(1_000_028)[20..], b"0000001C0000");
    }
}
