//! Limits on the unread replies of a client.

use crate::conn::peers::{Peer, Peers};
use crate::limits::{LARGE_REPLY_BYTES, OUTBOUND_PARTS, OUTBOUND_SHARE_BYTES, UNREAD_BYTES_PAUSE};

/// Remark of the reply that replaces a large one.
pub(crate) const NO_ROOM: &str =
    "[OVERLOAD]clients have not taken too many bytes of earlier answers, ask again later";

/// Whether a client must read replies before the server reads from it again. `outbound_bytes`:
/// bytes of replies that it has not read.
pub(crate) fn is_full(peers: &Peers, outbound_bytes: usize) -> bool {
    outbound_bytes > OUTBOUND_SHARE_BYTES
        && (outbound_bytes >= UNREAD_BYTES_PAUSE || is_budget_short(peers))
}

/// Whether all clients together have too many bytes of unread replies, so that each gets its share.
fn is_budget_short(peers: &Peers) -> bool {
    peers.outbound_bytes() > peers.reply_bytes_max / OUTBOUND_PARTS
}

/// Whether a client must read some replies before it gets more.
pub(crate) fn must_wait(peers: &Peers, peer: &Peer) -> bool {
    !peer.is_closing() && is_full(peers, peer.outbound_bytes())
}

/// Whether `more` bytes would exceed the client's share while the unread replies of all clients
/// exceed their budget.
pub(crate) fn has_its_share(peers: &Peers, peer: &Peer, more: usize) -> bool {
    is_budget_short(peers) && peer.outbound_bytes() + more > OUTBOUND_SHARE_BYTES
}

/// Whether a reply of `bytes` fits beside the unread replies of all clients.
pub(crate) fn has_room(peers: &Peers, bytes: usize) -> bool {
    bytes <= LARGE_REPLY_BYTES || peers.outbound_bytes() + bytes <= peers.reply_bytes_max
}
