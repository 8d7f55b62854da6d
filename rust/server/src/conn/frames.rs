//! A whole frame as handlers get it.

use bytes::Bytes;

use crate::conn::budget::Room;

/// A whole frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole<'b> {
    pub bytes: &'b [u8],
    /// The same bytes, if they have memory of their own: who keeps the frame need not copy it.
    own: Option<&'b Bytes>,
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

/// The bytes of a frame; the last reference to them gives `room` back.
pub(crate) fn with_room(frame: Vec<u8>, room: Option<Box<Room>>) -> Bytes {
    match room {
        None => Bytes::from(frame),
        Some(room) => Bytes::from_owner(Roomy(frame, room)),
    }
}

struct Roomy(
    Vec<u8>,
    #[expect(dead_code, reason = "it is held")] Box<Room>,
);

impl AsRef<[u8]> for Roomy {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
