//! Heartbeats: a repetition of one that Python has acknowledged needs no other answer.

use crate::operations::server_state::ServerState;
use crate::state::known_heartbeats::Heart;

/// Whether Python has acknowledged this heartbeat before; then only its time is recorded.
pub(crate) fn repeat(state: &ServerState, heart: &Heart, body: &[u8], sender: (u8, i32)) -> bool {
    let beat = state.heartbeats.read(body, sender, heart);
    let is_known = beat.is_some_and(|beat| heart.is_known(beat));
    if is_known {
        heart.answered(state.clock.monotonic_ms());
    }
    is_known
}
