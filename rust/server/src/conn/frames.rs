//! Cuts whole frames out of a byte stream. Needing more bytes is a normal outcome.

use std::mem;

use bytes::Bytes;

use crate::conn::budget::{Budget, Room};
use crate::fair::spare_buffers;
use mq_format::remoting::{FrameError, HeaderLimits};
use mq_net::frame::{LENGTH_BYTES, frame_size};

/// A frame that lacks fewer bytes is read with what comes after it.
const LARGE_BYTES: usize = 32 << 10;
/// A large frame gets so many times the room of what came of it.
const GROWTH: usize = 3;

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is taken, and so may the next one be.
    Next,
    /// It is the last one for now.
    Last,
    /// It is left with those after it. Only for one without memory of its own.
    NotYet,
}

/// A whole frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole<'b> {
    pub bytes: &'b [u8],
    /// The same, if it has memory of its own: who keeps the frame need not copy it.
    pub own: Option<&'b Bytes>,
}

impl<'b> Whole<'b> {
    /// A frame among other bytes.
    pub(crate) fn among(bytes: &'b [u8]) -> Self {
        Self { bytes, own: None }
    }

    /// A frame that has its memory to itself.
    pub(crate) fn own(bytes: &'b Bytes) -> Self {
        Self {
            bytes,
            own: Some(bytes),
        }
    }

    /// The frame for who keeps it.
    pub(crate) fn keep(self) -> Bytes {
        self.own
            .map_or_else(|| Bytes::copy_from_slice(self.bytes), Bytes::clone)
    }
}

/// The beginning of a frame that is not complete yet; empty between frames.
#[derive(Debug)]
pub(crate) struct Splitter {
    partial: Vec<u8>,
    /// What it has of the budget of large requests, if it is large.
    room: Option<Box<Room>>,
    frame_bytes_max: usize,
    header: HeaderLimits,
}

impl Splitter {
    pub(crate) fn new(frame_bytes_max: usize, header: HeaderLimits) -> Self {
        Self {
            partial: Vec::new(),
            room: None,
            frame_bytes_max,
            header,
        }
    }

    /// Whether a frame has begun and not ended.
    pub(crate) fn is_partial(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Bytes of that frame that came.
    pub(crate) fn received(&self) -> usize {
        self.partial.len()
    }

    /// The whole size of that frame, if it needs room in the budget of large requests.
    pub(crate) fn large_size(&self) -> Option<usize> {
        let size = frame_size(&self.partial, self.frame_bytes_max).ok()??;
        Budget::concerns(size).then_some(size)
    }

    /// Whether that frame has its room.
    pub(crate) fn has_room(&self) -> bool {
        self.room.is_some()
    }

    /// Gives that frame its room, until its last byte is no longer needed.
    pub(crate) fn give_room(&mut self, room: Room) {
        self.room = Some(Box::new(room));
    }

    /// What that frame takes of memory, bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.partial.capacity()
    }

    /// Where more of a large frame is to be received, behind what is there, and how much of it at
    /// most; None if there is no such frame. `feed` takes note, of no bytes if there are no others.
    /// Room is made for `room` bytes or a few times what came, never for all that is claimed,
    /// unless the memory is there already.
    pub(crate) fn large(&mut self, room: usize) -> Option<(&mut Vec<u8>, usize)> {
        let size = frame_size(&self.partial, self.frame_bytes_max).ok()??;
        let missing = size.saturating_sub(self.partial.len());
        if missing < LARGE_BYTES {
            return None;
        }
        let spare = self.partial.capacity() - self.partial.len();
        if spare < LARGE_BYTES {
            self.make_room(size, room);
        }
        let spare = self.partial.capacity() - self.partial.len();
        Some((&mut self.partial, spare.min(missing)))
    }

    fn make_room(&mut self, size: usize, room: usize) {
        if let Some(mut buffer) = spare_buffers::take(size) {
            buffer.extend_from_slice(&self.partial);
            spare_buffers::keep(mem::replace(&mut self.partial, buffer));
            return;
        }
        let missing = size - self.partial.len();
        let more = room.max(GROWTH * self.partial.len());
        // The last few bytes are not worth other memory.
        let is_rest = missing < more + LARGE_BYTES;
        self.partial
            .reserve_exact(if is_rest { missing } else { more });
    }

    /// Takes bytes just read and gives each frame that is now complete to `take`, whole, length
    /// word included, until it is the last. Returns what is left of the bytes then, else nothing.
    /// Only the frame cut in two by the reads is copied.
    pub(crate) fn feed<'b>(
        &mut self,
        mut bytes: &'b [u8],
        mut take: impl FnMut(Whole<'_>) -> Result<Taken, FrameError>,
    ) -> Result<&'b [u8], FrameError> {
        while !self.partial.is_empty() {
            let Some(rest) = self.complete(bytes)? else {
                return Ok(&[]);
            };
            bytes = rest;
            // Nothing is kept: most connections are quiet most of the time.
            let whole = spare_buffers::lend(mem::take(&mut self.partial), self.room.take());
            if take(Whole::own(&whole))? != Taken::Next {
                return Ok(bytes);
            }
        }
        while let Some(size) = frame_size(bytes, self.frame_bytes_max)? {
            let Some((frame, rest)) = bytes.split_at_checked(size) else {
                break;
            };
            match take(Whole::among(frame))? {
                Taken::Next => bytes = rest,
                Taken::Last => return Ok(rest),
                Taken::NotYet => return Ok(bytes),
            }
        }
        self.header.check_start(bytes)?;
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
        self.header.check_start(&self.partial)?;
        Ok((self.partial.len() == size).then_some(rest))
    }
}

impl Drop for Splitter {
    fn drop(&mut self) {
        spare_buffers::keep(mem::take(&mut self.partial));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SPARE_BYTES_MAX;

    fn frame(body: &[u8]) -> Vec<u8> {
        let length = i32::try_from(body.len() + 4).unwrap();
        [&length.to_be_bytes()[..], &[0; 4], body].concat()
    }

    #[test]
    fn finds_frames_however_they_are_cut() {
        let frames = [frame(b""), frame(b"abc"), frame(&[7; 10_000]), frame(b"d")];
        let stream = frames.concat();
        for size in [1, 2, 3, 5, 7, 64, 4_096, stream.len()] {
            let mut splitter = Splitter::new(1 << 20, HeaderLimits::NONE);
            let mut found = Vec::new();
            for chunk in stream.chunks(size) {
                let take = |frame: Whole<'_>| {
                    found.push(frame.bytes.to_vec());
                    Ok(Taken::Next)
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
            let mut splitter = Splitter::new(1 << 20, HeaderLimits::NONE);
            let mut found = Vec::new();
            for piece in [&stream[..cut], &stream[cut..]] {
                let mut left = piece;
                let mut turns = 0;
                while !left.is_empty() {
                    let take = |frame: Whole<'_>| {
                        found.push(frame.bytes.to_vec());
                        Ok(Taken::Last)
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
    fn a_frame_that_is_not_taken_yet_is_left() {
        let stream = [frame(b"abc"), frame(b"de")].concat();
        let mut splitter = Splitter::new(1 << 20, HeaderLimits::NONE);
        let left = splitter.feed(&stream, |_| Ok(Taken::NotYet)).unwrap();
        assert_eq!(left, stream);
        assert!(!splitter.is_partial());
    }

    #[test]
    fn a_large_frame_gathers_where_it_is_kept() {
        let sent = frame(&[7; SPARE_BYTES_MAX]); // for which no memory is there
        let mut splitter = Splitter::new(16 << 20, HeaderLimits::NONE);
        let nothing = |_: Whole<'_>| panic!("it is not whole");
        assert!(splitter.large(1).is_none());
        assert!(splitter.feed(&sent[..100], nothing).unwrap().is_empty());
        let mut came = 100;
        while let Some((target, room)) = splitter.large(4_096) {
            assert!(
                room <= 4 * came.max(4_096) + LARGE_BYTES,
                "{room} after {came}"
            );
            target.extend_from_slice(&sent[came..came + room]);
            came += room;
        }
        let mut found = None;
        let take = |whole: Whole<'_>| {
            found = whole.own.cloned();
            Ok(Taken::Next)
        };
        // The last few come with what follows them.
        let end = [&sent[came..], b"\0"].concat();
        assert!(splitter.feed(&end, take).unwrap().is_empty());
        assert_eq!(found.unwrap(), sent);
        assert!(splitter.is_partial());
        assert!(splitter.held_bytes() < 100);
    }

    #[test]
    fn a_large_frame_gathers_in_the_memory_of_an_earlier_one() {
        let sent = frame(&[7; 3_000_000]);
        let mut found = None;
        for _ in 0..3 {
            let mut splitter = Splitter::new(16 << 20, HeaderLimits::NONE);
            let mut feed = |splitter: &mut Splitter, bytes: &[u8]| {
                let take = |whole: Whole<'_>| {
                    found = Some(whole.bytes.as_ptr());
                    assert_eq!(whole.bytes, sent);
                    Ok(Taken::Next)
                };
                assert!(splitter.feed(bytes, take).unwrap().is_empty());
            };
            feed(&mut splitter, &sent[..10]);
            let mut came = 10;
            while let Some((target, room)) = splitter.large(4_096) {
                target.extend_from_slice(&sent[came..came + room]);
                came += room;
            }
            feed(&mut splitter, &sent[came..]);
        }
        let first = found.unwrap();
        let kept = spare_buffers::take(sent.len()).unwrap();
        assert_eq!(kept.as_ptr(), first);
    }

    #[test]
    fn a_large_frame_that_is_whole_needs_no_more_bytes() {
        let sent = frame(&[7; 100_000]);
        let mut splitter = Splitter::new(16 << 20, HeaderLimits::NONE);
        let part = |_: Whole<'_>| panic!("it is not whole");
        splitter.feed(&sent[..10], part).unwrap();
        let (target, room) = splitter.large(1 << 20).unwrap();
        assert_eq!(room, sent.len() - 10);
        target.extend_from_slice(&sent[10..]);
        let mut found = Vec::new();
        let take = |whole: Whole<'_>| {
            found = whole.keep().to_vec();
            Ok(Taken::Next)
        };
        splitter.feed(&[], take).unwrap();
        assert_eq!(found, sent);
    }

    #[test]
    fn a_header_that_is_too_long_is_refused_before_it_is_kept() {
        let limits = HeaderLimits {
            bytes: 100,
            fields: 10,
        };
        let start = [0, 0, 4, 0, 0, 0, 0, 101, b'{'];
        for cut in 1..=start.len() {
            let mut splitter = Splitter::new(1 << 20, limits);
            let nothing = |_: Whole<'_>| panic!("it is not whole");
            let mut pieces = [&start[..cut], &start[cut..]].into_iter();
            let refused = pieces.find_map(|piece| splitter.feed(piece, nothing).err());
            let (header, limit) = (101, 100);
            assert_eq!(refused, Some(FrameError::HeaderBytes { header, limit }));
        }
    }

    #[test]
    fn refuses_impossible_lengths_at_once() {
        for length in [-1i32, 0, 3, 97, i32::MAX] {
            let mut splitter = Splitter::new(100, HeaderLimits::NONE);
            let word = length.to_be_bytes();
            let result = splitter.feed(&word, |_| Ok(Taken::Next));
            assert_eq!(result, Err(FrameError::Length { length, limit: 96 }));
        }
        assert!(
            Splitter::new(100, HeaderLimits::NONE)
                .feed(&96i32.to_be_bytes(), |_| Ok(Taken::Next))
                .is_ok()
        );
    }
}
