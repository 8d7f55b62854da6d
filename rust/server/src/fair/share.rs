//! How much clients that do not take their answers may be owed before they have to wait.

use crate::conn::peers::{Peer, Peers};
use crate::limits::{OWED_BYTES_BUDGET, OWED_SHARE_BYTES};

/// Whether a client has to take answers before it is read again. `owed`: bytes of answers that it
/// has not taken. `limit`: the largest `owed` while all clients together are below their budget.
pub(crate) fn is_full(peers: &Peers, owed: usize, limit: usize) -> bool {
    owed > OWED_SHARE_BYTES && (owed >= limit || peers.owed() > OWED_BYTES_BUDGET)
}

/// Whether `more` bytes would give a client more than its share, while all clients together are
/// owed more than their budget.
pub(crate) fn has_its_share(peers: &Peers, peer: &Peer, more: usize) -> bool {
    peers.owed() > OWED_BYTES_BUDGET && peer.owed() + more > OWED_SHARE_BYTES
}
