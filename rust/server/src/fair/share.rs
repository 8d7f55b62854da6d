//! How much clients that do not take their answers may be owed before they have to wait.

use crate::conn::peers::{Peer, Peers};
use crate::limits::{
    LARGE_REPLY_BUDGET, LARGE_REPLY_BYTES, OWED_BYTES_BUDGET, OWED_SHARE_BYTES, UNREAD_BYTES_PAUSE,
};

/// Remark of the answer that replaces a large one.
pub(crate) const NO_ROOM: &str =
    "[OVERLOAD]clients have not taken too many bytes of earlier answers, ask again later";

/// Whether a client has to take answers before it is read again. `owed`: bytes of answers that it
/// has not taken.
pub(crate) fn is_full(peers: &Peers, owed: usize) -> bool {
    owed > OWED_SHARE_BYTES && (owed >= UNREAD_BYTES_PAUSE || peers.owed() > OWED_BYTES_BUDGET)
}

/// Whether a client is to take some of its answers before it gets more.
pub(crate) fn must_wait(peers: &Peers, peer: &Peer) -> bool {
    !peer.is_closing() && is_full(peers, peer.owed())
}

/// Whether `more` bytes would give a client more than its share, while all clients together are
/// owed more than their budget.
pub(crate) fn has_its_share(peers: &Peers, peer: &Peer, more: usize) -> bool {
    peers.owed() > OWED_BYTES_BUDGET && peer.owed() + more > OWED_SHARE_BYTES
}

/// Whether a reply of `bytes` has room beside the bytes that all clients are owed.
pub(crate) fn has_room(peers: &Peers, bytes: usize) -> bool {
    bytes <= LARGE_REPLY_BYTES || peers.owed() + bytes <= LARGE_REPLY_BUDGET
}
