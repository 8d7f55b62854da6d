//! How much clients that do not take their answers may be owed before they have to wait.

use crate::conn::peers::{Peer, Peers};
use crate::limits::{OWED_BYTES_BUDGET, OWED_SHARE_BYTES, UNREAD_BYTES_PAUSE};

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
