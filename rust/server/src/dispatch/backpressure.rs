//! Requests whose client must read earlier replies first: they wait and are resumed.

use std::sync::Arc;

use crate::conn::peers::Peer;
use crate::core::Core;
use crate::fair::backpressure::Waiting;
use crate::fair::share::must_wait;
use crate::requests::dispatch;
use mq_format::codes::SYSTEM_BUSY;
use mq_format::remoting::Head;

/// Remark for a request of a client that does not read its replies.
const UNREAD: &str = "[OVERLOAD]system busy, take the answers to earlier requests first";

/// Keeps a request until its client has read some replies; replies with code 2 if too many wait.
pub(crate) fn park(core: &Arc<Core>, peer: &Peer, waiting: Waiting) {
    match core.parked.keep(peer.id, waiting) {
        // If the client has read or left in the meantime, its task has already looked for requests.
        Ok(()) => give_back(core, peer),
        Err(Waiting::Python(request)) => dispatch::refuse(core, *request, UNREAD),
        Err(Waiting::Cold(task)) => {
            core.counters.overloaded.one();
            let mut out = Vec::new();
            Head::reply(task.to, SYSTEM_BUSY, Some(UNREAD)).encode(&[], &[], &mut out);
            core.write(peer, &out);
        }
    }
}

/// Returns the requests of a connection to their queues, unless they must still wait.
pub(crate) fn give_back(core: &Arc<Core>, peer: &Peer) {
    if must_wait(&core.peers, peer) {
        return;
    }
    for waiting in core.parked.take(peer.id) {
        match waiting {
            Waiting::Python(request) => dispatch::submit(core, *request),
            Waiting::Cold(task) => {
                let mut out = Vec::new();
                dispatch::read_later(core, task, &mut out);
                core.write(peer, &out);
            }
        }
    }
}

/// Drops the requests of all connections; each is answered when it is dropped.
pub(crate) fn give_up(core: &Arc<Core>) {
    for peer in core.peers.all() {
        for waiting in core.parked.take(peer.id) {
            if let Waiting::Python(request) = waiting {
                dispatch::end(core, *request);
            }
        }
    }
}

#[cfg(test)]
mod tests;
