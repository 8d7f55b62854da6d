//! Memory budget for large requests, from their first byte until they are answered.
//!
//! A frame over 1 MiB gets memory for all of its bytes before the server continues to read it, so
//! that an accepted frame can always be completed. Frames without room wait in order of arrival.
//! Their connections are not read in that time, so the sender's socket fills up and stops it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{LARGE_FRAME_BYTES, LARGE_PARTS};
use crate::stats::counters::Counted;

/// Bytes of one permit, because a semaphore counts in 32 bits.
const UNIT_BYTES: usize = 1 << 10;

/// The budget of one server.
#[derive(Debug)]
pub(crate) struct Budget {
    all: Arc<Semaphore>,
    units: usize,
    share_units: usize,
    waiting: AtomicUsize,
}

/// Part of the budget that one connection may use; created with its first large frame.
#[derive(Debug, Clone)]
pub(crate) struct Share(Arc<Semaphore>);

/// Budget of one frame; released when the last reference to the frame's bytes is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Budget {
    /// Creates a budget of `bytes`, but at least enough for one frame of `frame_bytes_max`.
    pub(crate) fn new(bytes: usize, frame_bytes_max: usize) -> Self {
        let one = units(frame_bytes_max);
        let all = units(bytes).clamp(one, Semaphore::MAX_PERMITS.max(one));
        Self {
            all: Arc::new(Semaphore::new(all)),
            units: all,
            share_units: one.max(all / LARGE_PARTS),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Whether a frame of this size needs room in the budget.
    pub(crate) fn concerns(frame_bytes: usize) -> bool {
        frame_bytes > LARGE_FRAME_BYTES
    }

    /// Creates the share of a new connection.
    pub(crate) fn share(&self) -> Share {
        Share(Arc::new(Semaphore::new(self.share_units)))
    }

    /// Waits for room for a frame, in order of arrival.
    pub(crate) async fn room(&self, share: Share, frame_bytes: usize) -> Option<Room> {
        let count = u32::try_from(units(frame_bytes)).unwrap_or(u32::MAX);
        // The connection's own share first: a connection must not block others with its own frames.
        let own = share.0.acquire_many_owned(count).await.ok()?;
        let _waiting = Counted::new(&self.waiting);
        let all = Arc::clone(&self.all).acquire_many_owned(count).await.ok()?;
        Some(Room {
            _own: own,
            _all: all,
        })
    }

    /// Whether frames wait for others to finish.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Bytes in use.
    pub(crate) fn taken_bytes(&self) -> usize {
        (self.units - self.all.available_permits()) * UNIT_BYTES
    }
}

/// Wraps a whole frame. When the last user drops the bytes, `room` is released; only large frames
/// have one.
pub(super) fn keep_room(frame: Vec<u8>, room: Option<Box<Room>>) -> Bytes {
    match room {
        None => Bytes::from(frame),
        Some(room) => Bytes::from_owner(LargeFrame { frame, _room: room }),
    }
}

struct LargeFrame {
    frame: Vec<u8>,
    _room: Box<Room>,
}

impl AsRef<[u8]> for LargeFrame {
    fn as_ref(&self) -> &[u8] {
        &self.frame
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES)
}
