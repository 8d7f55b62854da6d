//! Requests whose client must read earlier replies first: they wait and are resumed.

use std::sync::Arc;

use crate::clients::peers::Peer;
use crate::core::Core;
use crate::dispatch::routing;
use crate::waiting::backpressure::Parked;
use mq_format::codes::SYSTEM_BUSY;
use mq_format::remoting::Head;

/// Remark for a request of a client that does not read its replies.
const UNREAD: &str = "[OVERLOAD]system busy, take the answers to earlier requests first";

/// Keeps a request until its client has read some replies; replies with code 2 if too many wait.
pub(crate) fn park(core: &Arc<Core>, peer: &Peer, waiting: Parked) {
    match core.waiting.parked.keep(peer.id, waiting) {
        // If the client has read or left in the meantime, its task has already looked for requests.
        Ok(()) => give_back(core, peer),
        Err(Parked::Python(request)) => routing::refuse(core, *request, UNREAD),
        Err(Parked::Cold(task)) => {
            core.stats.counters.overloaded.one();
            let mut out = Vec::new();
            Head::reply(task.to, SYSTEM_BUSY, Some(UNREAD)).encode(&[], &[], &mut out);
            core.clients.write(peer, &out);
        }
    }
}

/// Returns the requests of a connection to their queues, unless they must still wait.
pub(crate) fn give_back(core: &Arc<Core>, peer: &Peer) {
    if core.clients.peers.must_wait(peer) {
        return;
    }
    for waiting in core.waiting.parked.take(peer.id) {
        match waiting {
            Parked::Python(request) => routing::submit(core, *request),
            Parked::Cold(task) => {
                let mut out = Vec::new();
                routing::read_later(core, task, &mut out);
                core.clients.write(peer, &out);
            }
        }
    }
}

/// Drops the requests of all connections; each is answered when it is dropped.
pub(crate) fn give_up(core: &Arc<Core>) {
    for peer in core.clients.peers.all() {
        for waiting in core.waiting.parked.take(peer.id) {
            if let Parked::Python(request) = waiting {
                routing::end(core, *request);
            }
        }
    }
}

#[cfg(test)]
mod tests;
