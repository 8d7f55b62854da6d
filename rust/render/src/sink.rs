//! Append-only buffers from a pool. Reuse matters because fresh memory costs a page fault per 4
//! KiB.

use parking_lot::Mutex;

/// Most memory in the pool, bytes.
const POOL_BYTES_MAX: usize = 64 << 20;
/// Smaller blocks are not pooled, bytes.
const POOLED_BYTES_MIN: usize = 4 << 10;

/// Block sizes are powers of two; this is their number.
const SIZES: usize = 15;

static POOL: Mutex<Pool> = Mutex::new(Pool {
    blocks: [const { Vec::new() }; SIZES],
    bytes: 0,
});

/// Free blocks by size.
#[derive(Debug)]
struct Pool {
    blocks: [Vec<Vec<u8>>; SIZES],
    bytes: usize,
}

impl Pool {
    fn take(&mut self, size: usize) -> Option<Vec<u8>> {
        let block = self.blocks.get_mut(place_of(size))?.pop()?;
        self.bytes -= block.len();
        Some(block)
    }

    fn give(&mut self, block: Vec<u8>) {
        let is_whole = block.len().is_power_of_two();
        if is_whole
            && self.bytes + block.len() <= POOL_BYTES_MAX
            && let Some(blocks) = self.blocks.get_mut(place_of(block.len()))
        {
            self.bytes += block.len();
            blocks.push(block);
        }
    }
}

/// Index of a block size, which is a power of two of at least `POOLED_BYTES_MIN`.
fn place_of(size: usize) -> usize {
    (size / POOLED_BYTES_MIN).trailing_zeros() as usize
}

/// A block of at least `room` bytes, from the pool if possible.
fn block(room: usize) -> Vec<u8> {
    if room > usize::MAX / 4 {
        return vec![0; room];
    }
    let size = room.next_power_of_two();
    // Do not block on the lock: a forked child may have inherited it locked.
    let used = POOL.try_lock().filter(|_| size >= POOLED_BYTES_MIN);
    used.and_then(|mut pool| pool.take(size))
        .unwrap_or_else(|| vec![0; size])
}

fn give_back(memory: Vec<u8>) {
    if memory.len() >= POOLED_BYTES_MIN
        && let Some(mut pool) = POOL.try_lock()
    {
        pool.give(memory);
    }
}

/// An append-only buffer. Dropping it returns its memory to the pool.
#[derive(Debug, Default)]
pub struct Sink {
    /// Fully initialized; the first `size` bytes are the content.
    memory: Vec<u8>,
    size: usize,
}

impl Sink {
    /// Reserves about `room` bytes; the buffer still grows beyond.
    pub(super) fn with_room(room: usize) -> Self {
        let mut made = Self::default();
        if room >= POOLED_BYTES_MIN {
            made.memory = block(room);
        }
        made
    }

    /// The bytes written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.memory[..self.size]
    }

    /// Bytes written.
    pub(super) fn len(&self) -> usize {
        self.size
    }

    /// Discards the content and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.size = 0;
    }

    /// Returns the content. The buffer continues with other memory of about the same size.
    pub(super) fn take(&mut self) -> Self {
        let next = Self::with_room(self.size);
        std::mem::replace(self, next)
    }

    /// Extends the content by `count` bytes, which the caller must overwrite.
    #[inline(always)]
    pub(super) fn room(&mut self, count: usize) -> &mut [u8] {
        let (start, end) = (self.size, self.size + count);
        if end > self.memory.len() {
            self.grow(end);
        }
        self.size = end;
        &mut self.memory[start..end]
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, end: usize) {
        let mut memory = block(end.saturating_add(end / 2).max(64));
        memory[..self.memory.len()].copy_from_slice(&self.memory);
        give_back(std::mem::replace(&mut self.memory, memory));
    }

    /// Appends bytes; their number is known at compile time.
    #[inline(always)]
    pub(super) fn put_all<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.room(N).copy_from_slice(bytes);
    }

    /// Appends the first `count` bytes. Faster than a slice, whose length is not known at compile
    /// time.
    #[inline(always)]
    pub(super) fn put_first<const N: usize>(&mut self, bytes: &[u8; N], count: usize) {
        self.put_all(bytes);
        self.size -= N - count;
    }

    /// Appends bytes; tuned for few.
    #[inline(always)]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        copy(bytes, self.room(bytes.len()));
    }

    /// Appends a byte.
    #[inline(always)]
    pub(super) fn push(&mut self, byte: u8) {
        self.put_all(&[byte]);
    }

    /// The content, for changing bytes in place.
    #[inline(always)]
    pub(super) fn written(&mut self) -> &mut [u8] {
        &mut self.memory[..self.size]
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.memory));
    }
}

/// The rendered text of the last value. Consecutive records often share the value.
#[derive(Debug, Default)]
pub(super) struct Kept {
    value: Vec<u8>,
    text: Sink,
}

impl Kept {
    /// Appends the rendering of `value`. Calls `write` only if the value changed.
    #[inline]
    pub(super) fn put(&mut self, value: &[u8], out: &mut Sink, write: impl FnOnce(&mut Sink)) {
        // A new cache holds an empty value without text, so an empty value is never a hit.
        if self.value != value || value.is_empty() {
            self.text.clear();
            write(&mut self.text);
            self.value.clear();
            self.value.extend_from_slice(value);
        }
        out.put(self.text.as_bytes());
    }
}

/// Copies between slices of equal length. Up to 32 bytes are copied as two overlapping halves,
/// because the call of `memcpy` would take longer than the copy.
#[inline(always)]
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    match from.len() {
        17..=32 => copy_ends::<16>(from, to),
        9..=16 => copy_ends::<8>(from, to),
        4..=8 => copy_ends::<4>(from, to),
        0..=3 => {
            for (to, from) in to.iter_mut().zip(from) {
                *to = *from;
            }
        }
        _ => to.copy_from_slice(from),
    }
}

/// Copies N to 2 N bytes.
#[inline(always)]
fn copy_ends<const N: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
        if let Some(to) = to.first_chunk_mut::<N>() {
            *to = *first;
        }
        if let Some(to) = to.last_chunk_mut::<N>() {
            *to = *last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_whole() {
        let source: Vec<u8> = (0..100).collect();
        let mut sink = Sink::default();
        let mut expected = Vec::new();
        for length in 0..source.len() {
            sink.put(&source[..length]);
            expected.extend_from_slice(&source[..length]);
        }
        assert_eq!(sink.as_bytes(), expected);
    }

    #[test]
    fn taken_bytes_stay_the_same_when_memory_is_reused() {
        let mut sink = Sink::default();
        sink.room(POOLED_BYTES_MIN * 3).fill(1);
        let taken = sink.take();
        sink.room(POOLED_BYTES_MIN * 3).fill(2);
        assert!(taken.as_bytes().iter().all(|byte| *byte == 1));
        drop(taken);
        let again = Sink::with_room(POOLED_BYTES_MIN);
        assert_eq!(again.as_bytes(), b"");
    }
}
