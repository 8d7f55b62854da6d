//! Cuts frames out of a byte stream. No I/O: the caller owns the socket and the bytes.

use std::mem;

use mq_format::remoting::{FrameError, HeaderLimits};

/// Size of the length field, bytes.
pub const LENGTH_BYTES: usize = 4;
/// The smallest value of the length field: a frame has at least a header word.
const LENGTH_MIN: usize = 4;
/// If a frame lacks fewer bytes than this, they are received together with the bytes after it.
const LARGE_BYTES: usize = 32 << 10;
/// The buffer of a large frame grows by the received bytes of the frame times this factor.
const GROWTH: usize = 3;

/// Returns the size of the frame that begins here, with its length field; None if the length field
/// is incomplete.
///
/// # Errors
/// `FrameError::Length` for a length that no frame may have.
fn frame_size(bytes: &[u8], max_frame_bytes: usize) -> Result<Option<usize>, FrameError> {
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

/// A whole frame with its length field.
#[derive(Debug, PartialEq, Eq)]
pub enum FrameBytes<'b> {
    /// A slice of the received bytes.
    Among(&'b [u8]),
    /// A copy, because the frame came in several pieces.
    Own(Vec<u8>),
}

impl FrameBytes<'_> {
    /// The frame's bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Among(bytes) => bytes,
            Self::Own(bytes) => bytes,
        }
    }
}

/// Cuts frames out of received bytes, and keeps the start of a frame that is not complete yet.
///
/// Only a frame that came in several pieces is copied. Between frames, a splitter uses no memory.
/// Its memory grows with the bytes that arrive, never with a length that a peer claims.
///
/// ```
/// use mq_format::remoting::HeaderLimits;
/// use mq_net::frame::{FrameBytes, FrameSplitter};
///
/// let mut splitter = FrameSplitter::new(1024, HeaderLimits::NONE);
/// let mut received = &b"\0\0\0\x05ab"[..];
/// assert_eq!(splitter.next(&mut received), Ok(None)); // more bytes are needed
/// let mut received = &b"cde"[..];
/// let whole = splitter.next(&mut received).unwrap().unwrap();
/// assert_eq!(whole, FrameBytes::Own(b"\0\0\0\x05abcde".to_vec()));
/// ```
#[derive(Debug)]
pub struct FrameSplitter {
    partial: Vec<u8>,
    frame_bytes_max: usize,
    header: HeaderLimits,
}

impl FrameSplitter {
    /// Creates a splitter that refuses frames over `frame_bytes_max`, length field included, and
    /// headers over `header`.
    pub fn new(frame_bytes_max: usize, header: HeaderLimits) -> Self {
        Self {
            partial: Vec::new(),
            frame_bytes_max,
            header,
        }
    }

    /// Returns the next whole frame and removes it from `bytes`. None if more bytes are needed; the
    /// splitter has then taken all of `bytes`.
    ///
    /// # Errors
    /// `FrameError` for a length that no frame may have. The bytes after it cannot be read.
    #[inline]
    pub fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Result<Option<FrameBytes<'b>>, FrameError> {
        if !self.partial.is_empty() {
            let is_whole = self.complete(bytes)?;
            // No buffer is kept, because most connections are quiet most of the time.
            return Ok(is_whole.then(|| FrameBytes::Own(mem::take(&mut self.partial))));
        }
        if let Some(size) = frame_size(bytes, self.frame_bytes_max)?
            && let Some((frame, rest)) = bytes.split_at_checked(size)
        {
            *bytes = rest;
            return Ok(Some(FrameBytes::Among(frame)));
        }
        self.header.check_start(bytes)?;
        self.partial.extend_from_slice(mem::take(bytes));
        Ok(None)
    }

    /// Whether a frame has begun and is not complete.
    pub fn is_partial(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Number of bytes of that frame that have arrived.
    pub fn received(&self) -> usize {
        self.partial.len()
    }

    /// Size of that frame, if its length field has arrived.
    pub fn partial_size(&self) -> Option<usize> {
        frame_size(&self.partial, self.frame_bytes_max).ok()?
    }

    /// Memory of that frame, bytes.
    pub fn held_bytes(&self) -> usize {
        self.partial.capacity()
    }

    /// Whether that frame is large: many of its bytes are missing, and [`FrameSplitter::large`]
    /// says where to receive them.
    pub fn is_large(&self) -> bool {
        self.missing_of_large().is_some()
    }

    fn missing_of_large(&self) -> Option<usize> {
        let missing = self.partial_size()?.saturating_sub(self.partial.len());
        (missing >= LARGE_BYTES).then_some(missing)
    }

    /// Returns the buffer to which the next bytes of a large frame should be appended, and how many
    /// bytes at most; None if there is no such frame. Afterwards, call `next` with no bytes, or
    /// with the bytes that follow the frame. The buffer grows by `room` bytes, or by three times
    /// the bytes received so far if that is more.
    pub fn large(&mut self, room: usize) -> Option<(&mut Vec<u8>, usize)> {
        let missing = self.missing_of_large()?;
        if self.partial.capacity() - self.partial.len() < LARGE_BYTES {
            let more = room.max(GROWTH * self.partial.len());
            // A few remaining bytes are not worth another growth.
            let is_rest = missing < more + LARGE_BYTES;
            self.partial
                .reserve_exact(if is_rest { missing } else { more });
        }
        let spare = self.partial.capacity() - self.partial.len();
        Some((&mut self.partial, spare.min(missing)))
    }

    /// Moves the missing bytes of the incomplete frame out of `bytes`; returns whether it is
    /// complete then. The buffer grows with the bytes that arrive, never with the claimed length.
    fn complete(&mut self, bytes: &mut &[u8]) -> Result<bool, FrameError> {
        self.move_up_to(LENGTH_BYTES, bytes);
        let Some(size) = frame_size(&self.partial, self.frame_bytes_max)? else {
            return Ok(false);
        };
        self.move_up_to(size, bytes);
        self.header.check_start(&self.partial)?;
        Ok(self.partial.len() == size)
    }

    /// Moves bytes until the incomplete frame has `size` bytes, or none are left.
    fn move_up_to(&mut self, size: usize, bytes: &mut &[u8]) {
        let missing = size.saturating_sub(self.partial.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(missing);
        self.partial.extend_from_slice(head);
        *bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives `bytes` to the splitter and returns the frames that are complete.
    fn split(splitter: &mut FrameSplitter, mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, FrameError> {
        let mut found = Vec::new();
        while let Some(whole) = splitter.next(&mut bytes)? {
            found.push(whole.bytes().to_vec());
        }
        assert!(bytes.is_empty());
        Ok(found)
    }

    fn unlimited() -> FrameSplitter {
        FrameSplitter::new(16 << 20, HeaderLimits::NONE)
    }

    fn frame(body: &[u8]) -> Vec<u8> {
        let length = i32::try_from(body.len() + 4).unwrap();
        [&length.to_be_bytes()[..], &[0; 4], body].concat()
    }

    #[test]
    fn finds_frames_however_they_are_cut() {
        let frames = [
            frame(b""),
            frame(b"abc"),
            frame(&[7; 70_000]),
            frame(b"d"),
            frame(b""),
        ];
        let stream = frames.concat();
        for size in [1, 2, 3, 5, 7, 64, 4_096, stream.len()] {
            let mut splitter = unlimited();
            let found: Vec<_> = stream
                .chunks(size)
                .flat_map(|piece| split(&mut splitter, piece).unwrap())
                .collect();
            assert_eq!(found, frames, "in chunks of {size}");
            assert!(!splitter.is_partial());
            assert_eq!(splitter.held_bytes(), 0);
        }
    }

    #[test]
    fn bytes_that_were_not_taken_are_taken_later() {
        let frames = [frame(b"abc"), frame(b"defg"), frame(b""), frame(b"hi")];
        let stream = frames.concat();
        for cut in 0..stream.len() {
            let mut splitter = unlimited();
            let mut found = Vec::new();
            for piece in [&stream[..cut], &stream[cut..]] {
                let mut left = piece.to_vec();
                while !left.is_empty() {
                    let mut rest = &left[..];
                    let whole = splitter.next(&mut rest).unwrap();
                    found.extend(whole.map(|whole| whole.bytes().to_vec()));
                    left = rest.to_vec(); // like a caller that serves others first
                }
            }
            assert_eq!(found, frames, "cut at {cut}");
        }
    }

    #[test]
    fn a_frame_among_the_bytes_can_be_left_for_later() {
        let stream = [frame(b"abc"), frame(b"de")].concat();
        let mut splitter = unlimited();
        let mut rest = &stream[..];
        assert!(splitter.next(&mut rest).unwrap().is_some());
        assert!(!splitter.is_partial());
        assert_eq!(split(&mut splitter, &stream).unwrap().concat(), stream);
    }

    #[test]
    fn a_large_frame_is_received_into_its_own_buffer() {
        let sent = frame(&[7; 8 << 20]);
        let mut splitter = unlimited();
        assert!(splitter.large(1).is_none());
        assert!(split(&mut splitter, &sent[..100]).unwrap().is_empty());
        let mut came = 100;
        while splitter.is_large() {
            let (target, room) = splitter.large(4_096).unwrap();
            assert!(
                room <= 4 * came.max(4_096) + LARGE_BYTES,
                "{room} after {came}"
            );
            target.extend_from_slice(&sent[came..came + room]);
            came += room;
        }
        // The last few bytes come together with the bytes after them.
        let end = [&sent[came..], b"\0"].concat();
        assert_eq!(split(&mut splitter, &end).unwrap(), [sent]);
        assert!(splitter.is_partial());
        assert!(splitter.held_bytes() < 100);
    }

    #[test]
    fn a_large_frame_that_is_whole_needs_no_more_bytes() {
        let sent = frame(&[7; 100_000]);
        let mut splitter = unlimited();
        assert!(split(&mut splitter, &sent[..10]).unwrap().is_empty());
        let (target, room) = splitter.large(1 << 20).unwrap();
        assert_eq!(room, sent.len() - 10);
        target.extend_from_slice(&sent[10..]);
        assert_eq!(split(&mut splitter, &[]).unwrap(), [sent]);
    }

    #[test]
    fn memory_grows_with_received_bytes_not_with_claims() {
        let mut splitter = unlimited();
        let start = &((15 << 20) as u32).to_be_bytes();
        assert!(split(&mut splitter, start).unwrap().is_empty());
        assert!(split(&mut splitter, &[0; 100]).unwrap().is_empty());
        assert!(splitter.held_bytes() < 1_000);
    }

    #[test]
    fn a_header_that_is_too_long_is_refused_before_it_is_kept() {
        let limits = HeaderLimits {
            bytes: 100,
            fields: 10,
        };
        let start = [0, 0, 4, 0, 0, 0, 0, 101, b'{'];
        for cut in 1..=start.len() {
            let mut splitter = FrameSplitter::new(1 << 20, limits);
            let mut pieces = [&start[..cut], &start[cut..]].into_iter();
            let refused = pieces.find_map(|piece| split(&mut splitter, piece).err());
            let (header, limit) = (101, 100);
            assert_eq!(refused, Some(FrameError::HeaderBytes { header, limit }));
        }
    }

    #[test]
    fn refuses_impossible_lengths_at_once() {
        for length in [-1i32, 0, 3, 97, i32::MAX] {
            let mut splitter = FrameSplitter::new(100, HeaderLimits::NONE);
            let refused = split(&mut splitter, &length.to_be_bytes());
            assert_eq!(refused, Err(FrameError::Length { length, limit: 96 }));
        }
        let mut splitter = FrameSplitter::new(100, HeaderLimits::NONE);
        assert!(split(&mut splitter, &96i32.to_be_bytes()).is_ok());
    }
}
