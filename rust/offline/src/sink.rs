//! Memory that grows at its end and is used again: fresh memory costs a page fault per 4 KiB.

use parking_lot::Mutex;

/// Most memory kept for later, bytes.
const POOL_BYTES_MAX: usize = 64 << 20;
/// Smaller blocks are the allocator's business.
const POOLED_BYTES_MIN: usize = 4 << 10;

/// Sizes of blocks: powers of two from the smallest on.
const SIZES: usize = 15;

static POOL: Mutex<Pool> = Mutex::new(Pool {
    blocks: [const { Vec::new() }; SIZES],
    bytes: 0,
});

/// Blocks that were given back, by size; as many as 64 MiB hold.
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

/// Where the pool has blocks of a size, which is a power of two and not too small.
fn place_of(size: usize) -> usize {
    (size / POOLED_BYTES_MIN).trailing_zeros() as usize
}

/// A block of at least `room` bytes, used before if possible.
fn block(room: usize) -> Vec<u8> {
    if room > usize::MAX / 4 {
        return vec![0; room];
    }
    let size = room.next_power_of_two();
    // Never waited for: a child process may have inherited it locked.
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

/// Bytes that grow at their end. Their memory is used again once they are dropped.
#[derive(Debug, Default)]
pub struct Sink {
    /// All of it may be written to; what counts is the first `size` bytes.
    memory: Vec<u8>,
    size: usize,
}

impl Sink {
    /// Memory for about `room` bytes; it grows beyond.
    pub(super) fn with_room(room: usize) -> Self {
        let mut made = Self::default();
        if room >= POOLED_BYTES_MIN {
            made.memory = block(room);
        }
        made
    }

    /// What was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.memory[..self.size]
    }

    /// Bytes written.
    pub(super) fn len(&self) -> usize {
        self.size
    }

    /// Forgets what was written and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.size = 0;
    }

    /// What was written; other memory of about the same size takes its place.
    pub(super) fn take(&mut self) -> Self {
        let next = Self::with_room(self.size);
        std::mem::replace(self, next)
    }

    /// The next `count` bytes, to be written.
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

    /// Appends bytes whose number the compiler knows.
    #[inline(always)]
    pub(super) fn put_all<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.room(N).copy_from_slice(bytes);
    }

    /// Appends the first `count` of some bytes: quicker than a slice whose length may be any.
    #[inline(always)]
    pub(super) fn put_first<const N: usize>(&mut self, bytes: &[u8; N], count: usize) {
        self.put_all(bytes);
        self.size -= N - count;
    }

    /// Appends bytes, few as a rule.
    #[inline(always)]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        copy(bytes, self.room(bytes.len()));
    }

    /// Appends a byte.
    #[inline(always)]
    pub(super) fn push(&mut self, byte: u8) {
        self.put_all(&[byte]);
    }

    /// Writes over bytes that were written before.
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

/// What was written for a value; the next record often has the same.
#[derive(Debug, Default)]
pub(super) struct Kept {
    value: Vec<u8>,
    text: Sink,
}

impl Kept {
    /// Appends what `write` makes of a value.
    #[inline]
    pub(super) fn put(&mut self, value: &[u8], out: &mut Sink, write: impl FnOnce(&mut Sink)) {
        // At first nothing is kept, for an empty value.
        if self.value != value || value.is_empty() {
            self.text.clear();
            write(&mut self.text);
            self.value.clear();
            self.value.extend_from_slice(value);
        }
        out.put(self.text.as_bytes());
    }
}

/// Copies between slices of one length. Up to 32 bytes go in two overlapping halves: calling
/// out for them takes longer than copying them.
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

/// Copies between N and 2 N bytes.
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
    fn what_was_taken_stays_while_memory_is_used_again() {
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
