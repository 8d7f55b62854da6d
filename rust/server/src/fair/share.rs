//! How much clients that do not take their answers may be owed before they have to wait.

use crate::conn::peers::{Peer, Peers};
use crate::limits::{OWED_BYTES_BUDGET, OWED_SHARE_BYTES};

/// Whether a client that is owed so much is to take some of it first. `limit`: if there is room.
pub(crate) fn is_full(peers: &Peers, owed: usize, limit: usize) -> bool {
    owed > OWED_SHARE_BYTES && (owed >= limit || peers.owed() > OWED_BYTES_BUDGET)
}

/// Whether a client that `more` bytes are on their way to has its share, while clients are owed too
/// much altogether.
pub(crate) fn has_its_share(peers: &Peers, peer: &Peer, more: usize) -> bool {
    peers.owed() > OWED_BYTES_BUDGET && peer.owed() + more > OWED_SHARE_BYTES
}
