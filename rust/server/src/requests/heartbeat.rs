//! HEART_BEAT (34): a repetition of a heartbeat that Python has acknowledged is answered here.

use crate::core::Core;
use crate::requests::context::{Context, Handled};

/// 34. Declines a heartbeat that Python has not acknowledged with the same content.
pub(crate) fn beat(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let (frame, heart) = (context.frame, &context.peer.heart);
    let sender = (frame.language.0, frame.version);
    if !context.core.state.repeats(heart, frame.body, sender) {
        return Handled::Declined;
    }
    context.reply(0, None, out);
    Handled::Native
}

impl Core {
    /// Sends the next heartbeat of these connections to Python; of all connections with
    /// `everybody`.
    pub fn forget_heartbeats(&self, connections: &[u64], everybody: bool) {
        if everybody {
            self.state.heartbeats.forget_all();
        }
        for connection in connections {
            if let Some(peer) = self.clients.peers.get(*connection) {
                peer.heart.forget();
            }
        }
    }

    /// Returns the connections whose last natively answered heartbeat is older than `limit_ms`.
    pub fn silent(&self, connections: Vec<u64>, limit_ms: i64) -> Vec<u64> {
        let since_ms = self.clock.monotonic_ms() - limit_ms;
        let is_silent = |id: &u64| {
            let peer = self.clients.peers.get(*id);
            peer.is_none_or(|peer| peer.heart.last_ms() < since_ms)
        };
        connections.into_iter().filter(is_silent).collect()
    }
}
