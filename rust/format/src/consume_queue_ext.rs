//! One unit of the consume queue extension: data that does not fit into an entry of 20 bytes.
//!
//! ```text
//!  0          2               10              18            20
//! ┌──────────┬───────────────┬───────────────┬─────────────┬────────┐
//! │ size i16 │ tags code i64 │ store time ms │ bitmap size │ bitmap │  big-endian
//! └──────────┴───────────────┴───────────────┴─────────────┴────────┘
//! ```
//! A size of -1 ends a file; 0 means that nothing was written. After each unit at least
//! [`END_BYTES`] are left in its file, so that the end mark always fits. The consume queue holds
//! the unit's address in place of the tags code.

/// Bytes of a unit without its bitmap.
pub const HEAD_BYTES: usize = 20;
/// Largest size of a unit, bytes.
pub const UNIT_BYTES_MAX: usize = i16::MAX as usize;
/// Bytes left free at the end of a file.
pub const END_BYTES: u64 = 4;
/// Ends a file, in place of a size.
pub const END_MARK: [u8; 2] = (-1_i16).to_be_bytes();

/// Addresses are positions plus this number, which is below every tags code and every time.
const ADDRESS_BASE: i64 = i64::MIN;
/// Tags codes up to this one are addresses, not hashes.
const ADDRESS_MAX: i64 = i32::MIN as i64 - 1;

/// The content of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtUnit<'a> {
    /// The tags code, whose place in the consume queue is taken by the address.
    pub tags_code: i64,
    /// When the message was stored, milliseconds since the epoch.
    pub store_timestamp_ms: i64,
    /// Bit set of the filters that the message passed; empty if none was computed.
    pub bitmap: &'a [u8],
}

/// Kind of the bytes at the position of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtHead {
    /// A unit of this many bytes.
    Unit(usize),
    /// The end of the file.
    End,
    /// No unit was written here.
    Neither,
}

impl ExtHead {
    /// Reads the size field; `Neither` for fewer than two bytes.
    pub fn parse(bytes: &[u8]) -> Self {
        let Some(size) = bytes.first_chunk() else {
            return Self::Neither;
        };
        if *size == END_MARK {
            return Self::End;
        }
        match usize::try_from(i16::from_be_bytes(*size)) {
            Ok(size) if size >= HEAD_BYTES => Self::Unit(size),
            _ => Self::Neither,
        }
    }
}

impl<'a> ExtUnit<'a> {
    /// Size of the unit in bytes; more than [`UNIT_BYTES_MAX`] cannot be stored.
    pub fn size(&self) -> usize {
        HEAD_BYTES + self.bitmap.len()
    }

    /// Appends the unit to `out`; false if it is too long.
    pub fn encode(&self, out: &mut Vec<u8>) -> bool {
        let Ok(size) = i16::try_from(self.size()) else {
            return false;
        };
        out.extend_from_slice(&size.to_be_bytes());
        out.extend_from_slice(&self.tags_code.to_be_bytes());
        out.extend_from_slice(&self.store_timestamp_ms.to_be_bytes());
        out.extend_from_slice(&(size - HEAD_BYTES as i16).to_be_bytes());
        out.extend_from_slice(self.bitmap);
        true
    }

    /// Decodes the unit at the start of `bytes`; None if there is no unit, or not all of it.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let ExtHead::Unit(size) = ExtHead::parse(bytes) else {
            return None;
        };
        let (head, _) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let [_, _, tags @ .., t0, t1, t2, t3, t4, t5, t6, t7, b0, b1] = head;
        let bitmap_bytes = usize::try_from(i16::from_be_bytes([*b0, *b1])).ok()?;
        let bitmap = bytes.get(HEAD_BYTES..size)?;
        (bitmap.len() == bitmap_bytes).then_some(Self {
            tags_code: i64::from_be_bytes(*tags),
            store_timestamp_ms: i64::from_be_bytes([*t0, *t1, *t2, *t3, *t4, *t5, *t6, *t7]),
            bitmap,
        })
    }
}

/// Returns the address of the unit at `position`, bytes from the start of the extension.
pub fn address(position: u64) -> i64 {
    position.cast_signed().wrapping_add(ADDRESS_BASE)
}

/// Returns the position of an address; None for other tags codes.
pub fn position(address: i64) -> Option<u64> {
    is_address(address).then(|| address.wrapping_sub(ADDRESS_BASE).cast_unsigned())
}

/// Whether a tags code is an address in the extension.
pub fn is_address(tags_code: i64) -> bool {
    tags_code <= ADDRESS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: ExtUnit<'_> = ExtUnit {
        tags_code: -2,
        store_timestamp_ms: 0x0102,
        bitmap: &[0, 8, 16],
    };

    #[test]
    fn a_unit_has_the_documented_layout() {
        let mut bytes = Vec::new();
        assert!(UNIT.encode(&mut bytes));
        assert_eq!(bytes[..2], [0, 23]);
        assert_eq!(bytes[2..10], (-2_i64).to_be_bytes());
        assert_eq!(bytes[10..18], [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(bytes[18..], [0, 3, 0, 8, 16]);
        assert_eq!(ExtUnit::decode(&bytes), Some(UNIT));
        assert_eq!(ExtUnit::decode(&bytes[..22]), None);
        bytes[19] = 2;
        assert_eq!(ExtUnit::decode(&bytes), None, "the two sizes differ");
    }

    #[test]
    fn sizes_that_are_not_of_a_unit() {
        assert_eq!(ExtHead::parse(&END_MARK), ExtHead::End);
        for size in [0, 1, 19, -2, i16::MIN] {
            assert_eq!(ExtHead::parse(&size.to_be_bytes()), ExtHead::Neither);
        }
        assert_eq!(ExtHead::parse(&[0]), ExtHead::Neither);
        assert_eq!(ExtHead::parse(&[0, 20]), ExtHead::Unit(20));
        let longest = vec![0; UNIT_BYTES_MAX - HEAD_BYTES + 1];
        let bitmap = longest.as_slice();
        let mut out = Vec::new();
        assert!(!ExtUnit { bitmap, ..UNIT }.encode(&mut out) && out.is_empty());
        let bitmap = &bitmap[1..];
        assert!(ExtUnit { bitmap, ..UNIT }.encode(&mut out));
        assert_eq!(out.len(), UNIT_BYTES_MAX);
    }

    #[test]
    fn addresses_lie_below_every_int() {
        assert_eq!(address(0), i64::MIN);
        assert_eq!(position(i64::MIN + 2048), Some(2048));
        assert_eq!(address(2048), i64::MIN + 2048);
        assert!(is_address(-2_147_483_649) && !is_address(-2_147_483_648));
        assert_eq!(position(76), None);
    }
}
