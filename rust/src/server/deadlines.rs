//! How long a connection may take: for its TLS handshake, for a frame, and with nothing at all.

use std::time::Duration;

use tokio::time::Instant;

use super::connection::End;
use super::core::Core;
use super::events::EventKind;
use super::limits::FRAME_SECONDS_MAX;
use super::peers::Peer;
use super::tls::Handshake;

/// When to look at the limits again: often enough for all.
pub(super) fn next_check(core: &Core, peer: &Peer, handshake: Option<&Handshake>) -> Instant {
    let left = core.settings.idle_timeout.saturating_sub(quiet(core, peer));
    let left = left.max(Duration::from_millis(1));
    let check = Instant::now() + left.min(Duration::from_secs(FRAME_SECONDS_MAX));
    handshake.map_or(check, |handshake| check.min(handshake.deadline))
}

/// Why the connection ends now, if it has taken too long. `is_awaited`: a frame has begun, and the
/// rest of it is read as it comes.
pub(super) fn overdue(
    core: &Core,
    peer: &Peer,
    handshake: Option<&Handshake>,
    is_awaited: bool,
) -> Option<End> {
    if handshake.is_some_and(|handshake| handshake.deadline <= Instant::now()) {
        core.counters.tls_failed.one();
        let seconds = core.settings.tls.handshake_timeout.as_secs_f64();
        let detail = format!("the TLS handshake was not complete after {seconds} s");
        return Some((EventKind::Tls, detail));
    }
    let began_ms = peer.unfinished.began_ms();
    let taken_ms = began_ms.map_or(0, |began_ms| core.clock.monotonic_ms() - began_ms);
    if is_awaited && taken_ms >= FRAME_SECONDS_MAX as i64 * 1_000 {
        core.counters.frames_bad.one();
        let detail = format!("a frame was not complete after {FRAME_SECONDS_MAX} s");
        return Some((EventKind::BadFrame, detail));
    }
    let idle = core.settings.idle_timeout;
    if quiet(core, peer) < idle {
        return None;
    }
    core.counters.connections_idle.one();
    let seconds = idle.as_secs_f64();
    Some(match peer.owed() {
        0 => (EventKind::Idle, format!("idle for {seconds} s")),
        owed => {
            let detail =
                format!("its client has {owed} bytes to read and took none for {seconds} s");
            (EventKind::Unread, detail)
        }
    })
}

/// How long nothing came and nothing was taken.
fn quiet(core: &Core, peer: &Peer) -> Duration {
    let quiet_ms = core.clock.monotonic_ms() - peer.last_active_ms();
    Duration::from_millis(quiet_ms.try_into().unwrap_or(0))
}
