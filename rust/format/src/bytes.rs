//! Bounds-checked big-endian reading; writing is `Vec` plus `to_be_bytes`.

use thiserror::Error;

/// The buffer has too few or too many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CursorError {
    /// The buffer ends inside a field.
    #[error("{needed} bytes needed at position {position}, {remaining} left")]
    Short {
        /// Start of the field, bytes from the start of the buffer.
        position: usize,
        /// Bytes of the field.
        needed: usize,
        /// Bytes left in the buffer.
        remaining: usize,
    },
    /// A field was decoded and bytes are left over.
    #[error("{0} bytes left after the last field")]
    Trailing(usize),
    /// A length field is negative.
    #[error("length {0} is negative")]
    NegativeLength(i64),
}

/// Reads big-endian fields from a slice and never past its end.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    buffer: &'a [u8],
    position: usize,
}

macro_rules! read_number {
    ($name:ident, $type:ty) => {
        #[doc = concat!("Reads one big-endian `", stringify!($type), "`.")]
        #[inline]
        pub fn $name(&mut self) -> Result<$type, CursorError> {
            let mut bytes = [0u8; size_of::<$type>()];
            bytes.copy_from_slice(self.take(size_of::<$type>())?);
            Ok(<$type>::from_be_bytes(bytes))
        }
    };
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of `buffer`.
    pub fn new(buffer: &'a [u8]) -> Self {
        Self {
            buffer,
            position: 0,
        }
    }

    read_number!(u8, u8);
    read_number!(i8, i8);
    read_number!(u16, u16);
    read_number!(i16, i16);
    read_number!(u32, u32);
    read_number!(i32, i32);
    read_number!(i64, i64);

    /// Bytes read so far.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes not read yet.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.buffer.len() - self.position
    }

    /// The bytes not read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        &self.buffer[self.position..]
    }

    /// Returns the next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], CursorError> {
        let (position, remaining) = (self.position, self.remaining());
        let end = position
            .checked_add(count)
            .filter(|end| *end <= self.buffer.len());
        let Some(end) = end else {
            return Err(CursorError::Short {
                position,
                needed: count,
                remaining,
            });
        };
        self.position = end;
        Ok(&self.buffer[position..end])
    }

    /// Returns the next `length` bytes; `length` is a signed field of the format.
    #[inline]
    pub fn take_signed(&mut self, length: i64) -> Result<&'a [u8], CursorError> {
        let count = usize::try_from(length).map_err(|_| CursorError::NegativeLength(length))?;
        self.take(count)
    }

    /// Checks that no bytes are left.
    #[inline]
    pub fn finish(&self) -> Result<(), CursorError> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(CursorError::Trailing(left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fields_in_order_and_stops_at_the_end() {
        let mut cursor = Cursor::new(&[0, 0, 1, 2, 0xFF, 9]);
        assert_eq!(cursor.i32(), Ok(0x0102));
        assert_eq!(cursor.i8(), Ok(-1));
        assert_eq!(cursor.finish(), Err(CursorError::Trailing(1)));
        assert_eq!(
            cursor.i16(),
            Err(CursorError::Short {
                position: 5,
                needed: 2,
                remaining: 1
            })
        );
        assert_eq!(cursor.take_signed(-1), Err(CursorError::NegativeLength(-1)));
        assert_eq!(cursor.take(1), Ok(&[9u8][..]));
        assert_eq!(cursor.finish(), Ok(()));
    }
}
