//! Cuts whole frames out of a byte stream. Needing more bytes is a normal outcome.

use std::ops::ControlFlow;

use crate::format::remoting::FrameError;
use crate::net::frame::{LENGTH_BYTES, frame_size};

/// The beginning of a frame that is not complete yet; empty between frames.
#[derive(Debug)]
pub(super) struct Splitter {
    partial: Vec<u8>,
    frame_bytes_max: usize,
}

impl Splitter {
    pub(super) fn new(frame_bytes_max: usize) -> Self {
        Self {
            partial: Vec::new(),
            frame_bytes_max,
        }
    }

    /// Whether a frame has begun and not ended.
    pub(super) fn is_partial(&self) -> bool {
        !self.partial.is_empty()
    }

    /// What that frame takes of memory, bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.partial.capacity()
    }

    /// Takes bytes just read and gives each frame that is now complete to `take`, whole, length
    /// word included, until that breaks off. Returns what is left of the bytes then, else nothing.
    /// Only the frame cut in two by the reads is copied.
    pub(super) fn feed<'b>(
        &mut self,
        mut bytes: &'b [u8],
        mut take: impl FnMut(&[u8]) -> Result<ControlFlow<()>, FrameError>,
    ) -> Result<&'b [u8], FrameError> {
        while !self.partial.is_empty() {
            let Some(rest) = self.complete(bytes)? else {
                return Ok(&[]);
            };
            bytes = rest;
            let flow = take(&self.partial)?;
            self.partial = Vec::new(); // most connections are quiet most of the time
            if flow.is_break() {
                return Ok(bytes);
            }
        }
        while let Some(size) = frame_size(bytes, self.frame_bytes_max)? {
            let Some((frame, rest)) = bytes.split_at_checked(size) else {
                break;
            };
            let flow = take(frame)?;
            bytes = rest;
            if flow.is_break() {
                return Ok(bytes);
            }
        }
        self.partial.extend_from_slice(bytes);
        Ok(&[])
    }

    /// Moves what the partial frame lacks out of `bytes`; None if that is not enough, else what
    /// is left. The buffer grows with the bytes that came, never with what a length word claims.
    fn complete<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<&'b [u8]>, FrameError> {
        let missing = LENGTH_BYTES
            .saturating_sub(self.partial.len())
            .min(bytes.len());
        let (head, bytes) = bytes.split_at(missing);
        self.partial.extend_from_slice(head);
        let Some(size) = frame_size(&self.partial, self.frame_bytes_max)? else {
            return Ok(None);
        };
        let missing = (size - self.partial.len()).min(bytes.len());
        let (tail, rest) = bytes.split_at(missing);
        self.partial.extend_from_slice(tail);
        Ok((self.partial.len() == size).then_some(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(body: &[u8]) -> Vec<u8> {
        let length = i32::try_from(body.len() + 4).unwrap();
        [&length.to_be_bytes()[..], &[0; 4], body].concat()
    }

    #[test]
    fn finds_frames_however_they_are_cut() {
        let frames = [frame(b""), frame(b"abc"), frame(&[7; 10_000]), frame(b"d")];
        let stream = frames.concat();
        for size in [1, 2, 3, 5, 7, 64, 4_096, stream.len()] {
            let mut splitter = Splitter::new(1 << 20);
            let mut found = Vec::new();
            for chunk in stream.chunks(size) {
                let take = |frame: &[u8]| {
                    found.push(frame.to_vec());
                    Ok(ControlFlow::Continue(()))
                };
                assert!(splitter.feed(chunk, take).unwrap().is_empty());
            }
            assert_eq!(found, frames, "in chunks of {size}");
            assert!(!splitter.is_partial());
            assert_eq!(splitter.held_bytes(), 0);
        }
    }

    #[test]
    fn what_is_left_when_the_taker_breaks_off_goes_on_later() {
        let frames = [frame(b"abc"), frame(b"defg"), frame(b""), frame(b"hi")];
        let stream = frames.concat();
        for cut in 0..stream.len() {
            let mut splitter = Splitter::new(1 << 20);
            let mut found = Vec::new();
            for piece in [&stream[..cut], &stream[cut..]] {
                let mut left = piece;
                let mut turns = 0;
                while !left.is_empty() {
                    let take = |frame: &[u8]| {
                        found.push(frame.to_vec());
                        Ok(ControlFlow::Break(()))
                    };
                    left = splitter.feed(left, take).unwrap();
                    turns += 1;
                }
                assert!(turns <= frames.len(), "one frame a turn");
            }
            assert_eq!(found, frames, "cut at {cut}");
        }
    }

    #[test]
    fn refuses_impossible_lengths_at_once() {
        for length in [-1i32, 0, 3, 97, i32::MAX] {
            let mut splitter = Splitter::new(100);
            let word = length.to_be_bytes();
            let result = splitter.feed(&word, |_| Ok(ControlFlow::Continue(())));
            assert_eq!(result, Err(FrameError::Length { length, limit: 96 }));
        }
        assert!(
            Splitter::new(100)
                .feed(&96i32.to_be_bytes(), |_| Ok(ControlFlow::Continue(())))
                .is_ok()
        );
    }
}
