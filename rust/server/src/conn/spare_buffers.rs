//! Buffers of finished large frames, kept for the next ones.
//!
//! The system clears each page of new memory at its first access and takes pages back one by one.
//! Together that takes longer than receiving the data of the frame.

use bytes::Bytes;
use parking_lot::Mutex;

use crate::conn::budget::Room;
use crate::limits::{SPARE_BUFFER_BYTES, SPARE_BYTES_MAX};

static SPARE: Mutex<Spare> = Mutex::new(Spare::new());

#[derive(Debug)]
struct Spare {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Spare {
    const fn new() -> Self {
        Self {
            buffers: Vec::new(),
            bytes: 0,
        }
    }

    /// Takes a buffer with room for `size` bytes, and not for many more.
    fn take(&mut self, size: usize) -> Option<Vec<u8>> {
        let fits = |buffer: &Vec<u8>| (size..=2 * size).contains(&buffer.capacity());
        let found = self.buffers.iter().rposition(fits)?;
        let buffer = self.buffers.swap_remove(found);
        self.bytes -= buffer.capacity();
        Some(buffer)
    }

    /// Keeps a buffer; returns the buffers for which there is no room.
    fn keep(&mut self, mut buffer: Vec<u8>) -> Option<Vec<u8>> {
        let size = buffer.capacity();
        if size < SPARE_BUFFER_BYTES || self.bytes + size > SPARE_BYTES_MAX {
            return Some(buffer);
        }
        buffer.clear();
        self.bytes += size;
        self.buffers.push(buffer);
        None
    }
}

/// Returns an empty buffer with room for a frame of `size` bytes, if one is available.
pub(crate) fn take(size: usize) -> Option<Vec<u8>> {
    (size >= SPARE_BUFFER_BYTES)
        .then(|| SPARE.lock().take(size))
        .flatten()
}

/// Keeps a buffer that is no longer used, if it is large and there is room.
pub(crate) fn keep(buffer: Vec<u8>) {
    if buffer.capacity() >= SPARE_BUFFER_BYTES {
        let refused = SPARE.lock().keep(buffer);
        drop(refused); // outside the lock: freeing may take long
    }
}

/// Wraps `buffer`. When the last user drops the bytes, the buffer is kept and `room` is released.
/// Only large frames have `room`.
pub(crate) fn lend(buffer: Vec<u8>, room: Option<Box<Room>>) -> Bytes {
    match buffer.capacity() < SPARE_BUFFER_BYTES {
        true => Bytes::from(buffer),
        false => Bytes::from_owner(Lent(buffer, room)),
    }
}

struct Lent(
    Vec<u8>,
    #[expect(dead_code, reason = "dropped with the buffer")] Option<Box<Room>>,
);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        keep(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = SPARE_BUFFER_BYTES;

    #[test]
    fn a_frame_gets_a_buffer_of_about_its_size() {
        let mut spare = Spare::new();
        for size in [2 * SIZE, 8 * SIZE] {
            assert_eq!(spare.keep(vec![7; size]), None);
        }
        assert_eq!(
            spare.take(3 * SIZE),
            None,
            "one is too small, one too large"
        );
        let buffer = spare.take(2 * SIZE).unwrap();
        assert!(buffer.is_empty() && buffer.capacity() == 2 * SIZE);
        assert_eq!(spare.take(2 * SIZE), None);
        assert_eq!(spare.bytes, 8 * SIZE);
    }

    #[test]
    fn the_memory_of_kept_buffers_is_limited() {
        let mut spare = Spare::new();
        let small = vec![0; SIZE - 1];
        assert!(spare.keep(small).is_some());
        while spare.keep(vec![0; SIZE]).is_none() {
            assert!(spare.bytes <= SPARE_BYTES_MAX);
        }
        assert!(spare.bytes + SIZE > SPARE_BYTES_MAX);
    }

    #[test]
    fn lent_bytes_equal_the_buffer() {
        for size in [10, SIZE] {
            let bytes = lend(vec![7; size], None);
            assert_eq!(bytes.slice(1..), vec![7; size - 1]);
        }
    }
}
