//! Large requests share one budget of memory, from their first byte until they are served.
//!
//! A frame over 1 MiB gets room for all of its bytes before the server reads on, so that a frame
//! that was let in can always be completed. One that finds no room waits in order of arrival, and
//! its connection is not read meanwhile: the sender's own socket holds it back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::counted::Counted;
use crate::limits::{LARGE_FRAME_BYTES, LARGE_PARTS};

/// Bytes of one permit: the semaphore counts in 32 bits.
const UNIT_BYTES: usize = 1 << 10;

/// The budget of one server.
#[derive(Debug)]
pub(crate) struct Budget {
    all: Arc<Semaphore>,
    units: usize,
    share_units: usize,
    waiting: AtomicUsize,
}

/// What one connection may take of it; made when the connection sends its first large frame.
#[derive(Debug, Clone)]
pub(crate) struct Share(Arc<Semaphore>);

/// Room for one frame, until it is dropped with the last reference to the frame's bytes.
#[derive(Debug)]
pub(crate) struct Room {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Budget {
    /// A budget of `bytes`, which is enough for one frame of `frame_bytes_max` in any case.
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

    /// Whether a frame of that size needs room.
    pub(crate) fn concerns(frame_bytes: usize) -> bool {
        frame_bytes > LARGE_FRAME_BYTES
    }

    /// The share of a new connection.
    pub(crate) fn share(&self) -> Share {
        Share(Arc::new(Semaphore::new(self.share_units)))
    }

    /// Waits for room for a frame: first come, first served.
    pub(crate) async fn room(&self, share: Share, frame_bytes: usize) -> Option<Room> {
        let count = u32::try_from(units(frame_bytes)).unwrap_or(u32::MAX);
        // Its own share first: a connection must not keep others waiting for its own frames.
        let own = share.0.acquire_many_owned(count).await.ok()?;
        let _waiting = Counted::new(&self.waiting);
        let all = Arc::clone(&self.all).acquire_many_owned(count).await.ok()?;
        Some(Room {
            _own: own,
            _all: all,
        })
    }

    /// Whether frames wait for others to be done.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Bytes that are taken.
    pub(crate) fn taken_bytes(&self) -> usize {
        (self.units - self.all.available_permits()) * UNIT_BYTES
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES)
}
