//! HEART_BEAT (34): a repetition of a heartbeat that Python has acknowledged is answered here.

use crate::requests::context::{Context, Handled};
use crate::shared::Shared;

/// 34. Declines a heartbeat that Python has not acknowledged with the same content.
pub(crate) fn beat(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let (shared, heart) = (context.shared, &context.peer.heart);
    let beat = shared.heartbeats.read(context.frame, heart);
    if !beat.is_some_and(|beat| heart.is_known(beat)) {
        return Handled::Declined;
    }
    let now_ms = shared.clock.monotonic_ms();
    heart.answered(now_ms);
    context.reply(0, None, out);
    Handled::Native
}

impl Shared {
    /// Sends the next heartbeat of these connections to Python; of all connections with
    /// `everybody`.
    pub fn forget_heartbeats(&self, connections: &[u64], everybody: bool) {
        if everybody {
            self.heartbeats.forget_all();
        }
        for connection in connections {
            if let Some(peer) = self.peers.get(*connection) {
                peer.heart.forget();
            }
        }
    }

    /// Returns the connections whose last natively answered heartbeat is older than `limit_ms`.
    pub fn silent(&self, connections: Vec<u64>, limit_ms: i64) -> Vec<u64> {
        let since_ms = self.clock.monotonic_ms() - limit_ms;
        let is_silent = |id: &u64| {
            let peer = self.peers.get(*id);
            peer.is_none_or(|peer| peer.heart.last_ms() < since_ms)
        };
        connections.into_iter().filter(is_silent).collect()
    }
}
