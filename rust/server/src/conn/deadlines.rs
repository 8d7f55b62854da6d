//! Deadlines of a connection: for its TLS handshake, for a frame, and for idle time.

use std::time::Duration;

use tokio::time::Instant;

use crate::clients::events::{End, EventKind};
use crate::clients::peers::Peer;
use crate::conn::handshakes::Handshake;
use crate::core::Core;
use crate::limits::FRAME_GRACE_PARTS;
use crate::settings::FrameLimits;

/// Interval of checks of a frame that other frames may wait for, milliseconds.
const AWAITED_LOOK_MS: i64 = 1_000;
/// Shortest time between two checks of a frame, milliseconds.
const LOOK_PAUSE_MS: i64 = 100;

/// An incomplete frame, while the server waits for its sender.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    /// Time since its first byte, without the time in which the server did not read.
    pub taken_ms: i64,
    /// Received bytes.
    pub received: usize,
    /// Size of the frame, if it has room in the budget of large requests.
    pub large: Option<usize>,
    /// Whether other connections wait for such room.
    pub is_awaited: bool,
}

impl FrameLimits {
    fn time_ms(self) -> i64 {
        self.time.as_millis().try_into().unwrap_or(i64::MAX)
    }

    /// Time that a frame may take before its rate is checked.
    pub(crate) fn grace(self) -> Duration {
        self.time / FRAME_GRACE_PARTS
    }

    fn grace_ms(self) -> i64 {
        self.time_ms() / i64::from(FRAME_GRACE_PARTS)
    }

    /// Milliseconds until the frame must be checked again. If no further byte arrives, the frame is
    /// late at that check.
    fn next_look_ms(self, frame: Begun) -> i64 {
        let mut at_ms = self.time_ms();
        let received_ms = (frame.received as u64).saturating_mul(1_000);
        if let Some(paid_ms) = received_ms.checked_div(self.bytes_per_second) {
            let paid_ms = i64::try_from(paid_ms).unwrap_or(i64::MAX).saturating_add(1);
            // Bytes that trickle in must not cause a check each.
            let soonest_ms = frame.taken_ms.saturating_add(LOOK_PAUSE_MS);
            at_ms = at_ms.min(paid_ms.max(self.grace_ms()).max(soonest_ms));
        }
        let left_ms = at_ms.saturating_sub(frame.taken_ms);
        match frame.large {
            Some(_) => left_ms.min(AWAITED_LOOK_MS),
            None => left_ms,
        }
    }

    /// Reason to close the connection because of this frame now; None if it has time left.
    fn why_late(self, frame: Begun) -> Option<String> {
        let Begun {
            taken_ms, received, ..
        } = frame;
        if taken_ms >= self.time_ms() {
            let seconds = self.time.as_secs_f64();
            return Some(format!("a frame was not complete after {seconds} s"));
        }
        let is_below = |rate: u64| {
            (received as u64).saturating_mul(1_000) < rate.saturating_mul(taken_ms.unsigned_abs())
        };
        if taken_ms >= self.grace_ms() && is_below(self.bytes_per_second) {
            let rate = self.bytes_per_second;
            return Some(format!(
                "a frame came slower than {rate} bytes a second: {received} bytes in {taken_ms} ms"
            ));
        }
        // At this rate the frame cannot be complete in time, so waiting frames get its room.
        let needed = |size: usize| size as u64 * 1_000 / self.time_ms().max(1).unsigned_abs();
        let may_wait = !frame.is_awaited || taken_ms < AWAITED_LOOK_MS;
        let size = frame
            .large
            .filter(|size| !may_wait && is_below(needed(*size)))?;
        Some(format!(
            "a frame of {size} bytes came too slowly while others waited for its room: \
             {received} bytes in {taken_ms} ms"
        ))
    }
}

/// Time of the next check: not after the earliest deadline.
pub(crate) fn next_check(
    core: &Core,
    peer: &Peer,
    handshake: Option<&Handshake>,
    frame: Option<Begun>,
) -> Instant {
    let mut left = core.settings.idle_timeout.saturating_sub(quiet(core, peer));
    if let Some(frame) = frame {
        let look_ms = core.settings.frame.next_look_ms(frame);
        left = left.min(Duration::from_millis(look_ms.try_into().unwrap_or(0)));
    }
    let check = Instant::now() + left.max(Duration::from_millis(1));
    handshake.map_or(check, |handshake| check.min(handshake.deadline))
}

/// Reason to close the connection now, if a deadline has passed.
pub(crate) fn overdue(
    core: &Core,
    peer: &Peer,
    handshake: Option<&Handshake>,
    frame: Option<Begun>,
) -> Option<End> {
    if handshake.is_some_and(|handshake| handshake.deadline <= Instant::now()) {
        core.stats.counters.tls_failed.one();
        let seconds = core.settings.tls.handshake_timeout.as_secs_f64();
        let detail = format!("the TLS handshake was not complete after {seconds} s");
        return Some((EventKind::Tls, detail));
    }
    if let Some(detail) = frame.and_then(|frame| core.settings.frame.why_late(frame)) {
        core.stats.counters.frames_bad.one();
        return Some((EventKind::BadFrame, detail));
    }
    let idle = core.settings.idle_timeout;
    if quiet(core, peer) < idle {
        return None;
    }
    core.stats.counters.connections_idle.one();
    let seconds = idle.as_secs_f64();
    Some(match peer.outbound_bytes() {
        0 => (EventKind::Idle, format!("idle for {seconds} s")),
        outbound_bytes => {
            let detail = format!(
                "its client has {outbound_bytes} bytes to read and took none for {seconds} s"
            );
            (EventKind::Unread, detail)
        }
    })
}

/// Time since the last byte was received or sent.
fn quiet(core: &Core, peer: &Peer) -> Duration {
    let quiet_ms = core.clock.monotonic_ms() - peer.last_active_ms();
    Duration::from_millis(quiet_ms.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 3 << 20;

    fn begun(taken_ms: i64, received: usize) -> Begun {
        Begun {
            taken_ms,
            received,
            large: None,
            is_awaited: false,
        }
    }

    /// Checks a frame as a connection does. `received` returns the bytes that have arrived at a
    /// time. Returns the time at which the frame ends its connection, and the number of checks.
    fn ends(
        limits: FrameLimits,
        first_look_ms: i64,
        received: impl Fn(i64) -> usize,
    ) -> (i64, u32) {
        let (mut now_ms, mut looks) = (first_look_ms, 1);
        while limits.why_late(begun(now_ms, received(now_ms))).is_none() {
            let wait_ms = limits.next_look_ms(begun(now_ms, received(now_ms)));
            assert!(wait_ms > 0, "a check that changes nothing at {now_ms}");
            (now_ms, looks) = (now_ms + wait_ms, looks + 1);
        }
        (now_ms, looks)
    }

    #[test]
    fn a_frame_ends_30_seconds_after_its_first_byte() {
        let limits = FrameLimits::default();
        for first_look_ms in [0, 1, 9_999, 10_000, 29_999] {
            let (at_ms, looks) = ends(limits, first_look_ms, |_| SIZE);
            assert_eq!(at_ms, 30_000, "first check at {first_look_ms}");
            assert!(looks <= 3, "{looks} checks");
        }
    }

    #[test]
    fn a_frame_that_trickles_ends_after_the_grace() {
        let limits = FrameLimits::default();
        assert_eq!(ends(limits, 0, |_| 1), (10_000, 2));
        let (at_ms, looks) = ends(limits, 0, |now_ms| now_ms as usize / 1_000 * 900);
        assert_eq!((at_ms, looks), (10_000, 2));
        // At exactly the minimum rate the frame may use its whole time, with a check every 100 ms.
        let (at_ms, looks) = ends(limits, 0, |now_ms| now_ms as usize * 1_024 / 1_000 + 1);
        assert_eq!(at_ms, 30_000);
        assert!(looks <= 202, "{looks} looks");
        let none = FrameLimits {
            bytes_per_second: 0,
            ..limits
        };
        assert_eq!(ends(none, 0, |_| 1).0, 30_000);
    }

    #[test]
    fn a_frame_that_stops_ends_once_its_bytes_are_used_up() {
        let limits = FrameLimits::default();
        let (at_ms, _) = ends(limits, 0, |_| 15 << 10);
        assert!((15_000..=15_100).contains(&at_ms), "{at_ms}");
    }

    #[test]
    fn a_frame_that_others_wait_for_has_to_come_in_time() {
        let limits = FrameLimits::default();
        let awaited = |taken_ms, received| Begun {
            large: Some(SIZE),
            is_awaited: true,
            ..begun(taken_ms, received)
        };
        assert_eq!(limits.why_late(awaited(999, 0)), None);
        assert_eq!(limits.why_late(awaited(3_000, SIZE / 10)), None);
        let why = limits.why_late(awaited(3_000, SIZE / 11)).unwrap();
        assert!(why.contains("while others waited for its room"), "{why}");
        let alone = Begun {
            is_awaited: false,
            ..awaited(3_000, SIZE / 11)
        };
        assert_eq!(limits.why_late(alone), None);
        assert_eq!(limits.next_look_ms(awaited(0, 100)), 1_000);
    }
}
