//! Cutting whole frames out of a byte stream. Pure: whoever owns the socket fills the buffer.

use mq_format::remoting::FrameError;

/// Bytes of the length word.
pub const LENGTH_BYTES: usize = 4;
/// The smallest length word: a frame has a header word at least.
const LENGTH_MIN: usize = 4;
/// A buffer starts with this much room; an idle connection keeps none at all.
const FIRST_ROOM_BYTES: usize = 8 * 1024;
/// A peer that fills the room it gets is given more at a time, up to this much.
const FULL_ROOM_BYTES: usize = 256 * 1024;
/// An empty buffer is kept while at least this part of it is used at a time.
const KEPT_FRACTION: usize = 4;

/// Bytes of the frame that begins here, length word included; None if the word is not complete.
///
/// # Errors
/// `FrameError::Length` on a length no frame may have.
pub fn frame_size(bytes: &[u8], max_frame_bytes: usize) -> Result<Option<usize>, FrameError> {
    let Some(word) = bytes.first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = i32::from_be_bytes(*word);
    let limit = max_frame_bytes - LENGTH_BYTES;
    let rest = usize::try_from(length)
        .ok()
        .filter(|rest| (LENGTH_MIN..=limit).contains(rest));
    let rest = rest.ok_or(FrameError::Length { length, limit })?;
    Ok(Some(LENGTH_BYTES + rest))
}

/// Collects received bytes and hands out whole frames, length word included.
///
/// Memory follows the bytes that really arrived (doubling), never a length somebody claims.
///
/// ```
/// use mq_net::frame::FrameSplitter;
///
/// let mut splitter = FrameSplitter::new(1024);
/// splitter.spare()[..6].copy_from_slice(b"\0\0\0\x05ab");
/// splitter.filled(6);
/// assert_eq!(splitter.next_frame(), Ok(None)); // more bytes are needed: that is normal
/// splitter.spare()[..3].copy_from_slice(b"cde");
/// splitter.filled(3);
/// assert_eq!(splitter.next_frame(), Ok(Some(&b"\0\0\0\x05abcde"[..])));
/// ```
#[derive(Debug)]
pub struct FrameSplitter {
    buffer: Vec<u8>,
    /// First byte not handed out yet.
    start: usize,
    /// First byte not filled yet.
    end: usize,
    /// The room given last was filled to its end: more was waiting, probably.
    was_filled_up: bool,
    max_frame_bytes: usize,
}

impl FrameSplitter {
    /// A splitter that refuses frames over `max_frame_bytes`, length word included.
    pub fn new(max_frame_bytes: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            was_filled_up: false,
            max_frame_bytes,
        }
    }

    /// Room to receive into, never empty; tell `filled` how much of it was used.
    pub fn spare(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.was_filled_up && self.buffer.len() < FULL_ROOM_BYTES {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
        }
        if self.end == self.buffer.len() {
            if self.start > self.buffer.len() / 2 {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            } else {
                let grown = (self.buffer.len() * 2).max(FIRST_ROOM_BYTES);
                self.buffer.resize(grown, 0);
            }
        }
        &mut self.buffer[self.end..]
    }

    /// Takes over `count` bytes written to the start of `spare`.
    pub fn filled(&mut self, count: usize) {
        assert!(
            count <= self.buffer.len() - self.end,
            "{count} bytes do not fit in the spare room"
        );
        self.end += count;
        self.was_filled_up = self.end == self.buffer.len();
    }

    /// The next whole frame, or None if more bytes are needed.
    ///
    /// # Errors
    /// `FrameError::Length` on a length no frame may have. Nothing after it can be read.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let held = &self.buffer[self.start..self.end];
        let Some(size) = frame_size(held, self.max_frame_bytes)? else {
            return Ok(None);
        };
        if held.len() < size {
            return Ok(None);
        }
        let start = self.start;
        self.start += size;
        Ok(Some(&self.buffer[start..self.start]))
    }

    /// Bytes of a frame that is not whole yet.
    pub fn pending(&self) -> usize {
        self.end - self.start
    }

    /// Gives the memory back if nothing is pending and the peer sends little at a time; call it
    /// before waiting. Ten thousand quiet connections then hold no buffers.
    pub fn relax(&mut self) {
        if self.start == self.end && self.end < self.buffer.len() / KEPT_FRACTION {
            *self = Self::new(self.max_frame_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(splitter: &mut FrameSplitter, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let spare = splitter.spare();
            let count = spare.len().min(bytes.len());
            spare[..count].copy_from_slice(&bytes[..count]);
            splitter.filled(count);
            bytes = &bytes[count..];
        }
    }

    fn frame(length: usize, fill: u8) -> Vec<u8> {
        let mut bytes = (length as u32).to_be_bytes().to_vec();
        bytes.resize(4 + length, fill);
        bytes
    }

    #[test]
    fn frames_come_out_whole_however_the_bytes_arrive() {
        let frames: Vec<_> = [4, 9, 30_000, 5, 70_000, 4]
            .map(|n| frame(n, n as u8))
            .into();
        let stream = frames.concat();
        for step in [1, 3, 4, 1000, 8192, stream.len()] {
            let mut splitter = FrameSplitter::new(1 << 20);
            let mut seen = Vec::new();
            for piece in stream.chunks(step) {
                feed(&mut splitter, piece);
                while let Some(frame) = splitter.next_frame().unwrap() {
                    seen.push(frame.to_vec());
                }
            }
            assert_eq!(seen, frames, "in steps of {step}");
            assert_eq!(splitter.pending(), 0);
        }
    }

    #[test]
    fn a_length_out_of_bounds_is_named_with_the_limit() {
        for (length, word) in [(-1, [0xFF; 4]), (3, [0, 0, 0, 3]), (97, [0, 0, 0, 97])] {
            let mut splitter = FrameSplitter::new(100);
            feed(&mut splitter, &word);
            assert_eq!(
                splitter.next_frame(),
                Err(FrameError::Length { length, limit: 96 })
            );
        }
    }

    #[test]
    fn a_peer_that_fills_its_room_gets_more() {
        let mut splitter = FrameSplitter::new(1 << 20);
        let mut rooms = Vec::new();
        for _ in 0..8 {
            let room = splitter.spare().len();
            feed(&mut splitter, &frame(room - 4, 1));
            assert!(splitter.next_frame().unwrap().is_some());
            rooms.push(room >> 10);
        }
        assert_eq!(rooms, [8, 16, 32, 64, 128, 256, 256, 256]);
    }

    #[test]
    fn memory_follows_what_arrived_not_what_is_claimed() {
        let mut splitter = FrameSplitter::new(16 << 20);
        feed(&mut splitter, &frame(16 << 20, 0)[..100]);
        assert_eq!(splitter.buffer.len(), FIRST_ROOM_BYTES);
        let mut splitter = FrameSplitter::new(16 << 20);
        feed(&mut splitter, &frame(1 << 20, 1));
        assert!(splitter.next_frame().unwrap().is_some());
        splitter.relax();
        assert_eq!(splitter.buffer.len(), 2 << 20); // well used
        feed(&mut splitter, &frame(100, 1));
        assert!(splitter.next_frame().unwrap().is_some());
        splitter.relax();
        assert_eq!(splitter.buffer.capacity(), 0);
    }
}
