//! Cuts whole frames out of a byte stream. Needing more bytes is a normal outcome.

use super::limits::IDLE_BUFFER_BYTES;
use crate::format::remoting::FrameError;

/// Bytes of the length word.
const LENGTH_BYTES: usize = 4;
/// What a frame has at least after its length word: the header word.
const LENGTH_MIN: i32 = 4;

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

    /// Takes bytes just read and gives each frame that is now complete to `take`, whole, length
    /// word included. Only the frame cut in two by the reads is copied.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), FrameError>,
    ) -> Result<(), FrameError> {
        while !self.partial.is_empty() {
            let Some(rest) = self.complete(bytes)? else {
                return Ok(());
            };
            bytes = rest;
            take(&self.partial)?;
            self.partial.clear();
            self.partial.shrink_to(IDLE_BUFFER_BYTES);
        }
        while let Some(size) = self.frame_size(bytes)? {
            let Some((frame, rest)) = bytes.split_at_checked(size) else {
                break;
            };
            take(frame)?;
            bytes = rest;
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    /// Moves what the partial frame lacks out of `bytes`; None if that is not enough, else what
    /// is left. The buffer grows with the bytes that came, never with what a length word claims.
    fn complete<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<&'b [u8]>, FrameError> {
        let missing = LENGTH_BYTES
            .saturating_sub(self.partial.len())
            .min(bytes.len());
        let (head, bytes) = bytes.split_at(missing);
        self.partial.extend_from_slice(head);
        let Some(size) = self.frame_size(&self.partial)? else {
            return Ok(None);
        };
        let missing = (size - self.partial.len()).min(bytes.len());
        let (tail, rest) = bytes.split_at(missing);
        self.partial.extend_from_slice(tail);
        Ok((self.partial.len() == size).then_some(rest))
    }

    /// Bytes of the frame that begins here, its length word included; None if the word itself is
    /// not complete.
    fn frame_size(&self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some(word) = bytes.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = i32::from_be_bytes(*word);
        let limit = self.frame_bytes_max - LENGTH_BYTES;
        let bad = FrameError::Length { length, limit };
        if length < LENGTH_MIN {
            return Err(bad);
        }
        match usize::try_from(length) {
            Ok(length) if length <= limit => Ok(Some(length + LENGTH_BYTES)),
            _ => Err(bad),
        }
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
                    Ok(())
                };
                splitter.feed(chunk, take).unwrap();
            }
            assert_eq!(found, frames, "in chunks of {size}");
            assert!(!splitter.is_partial());
        }
    }

    #[test]
    fn refuses_impossible_lengths_at_once() {
        for length in [-1i32, 0, 3, 97, i32::MAX] {
            let mut splitter = Splitter::new(100);
            let result = splitter.feed(&length.to_be_bytes(), |_| Ok(()));
            assert_eq!(result, Err(FrameError::Length { length, limit: 96 }));
        }
        assert!(
            Splitter::new(100)
                .feed(&96i32.to_be_bytes(), |_| Ok(()))
                .is_ok()
        );
    }
}
