//! Detects a peer that no longer answers, on the pool's clock in milliseconds.
//!
//! A connection that a NAT or a proxy has forgotten stays open, but nothing sent on it arrives. The
//! first sign is a request that timed out while no byte arrived. Then the connection sends a
//! question that every server answers at once. A server that is only slow answers it and keeps its
//! connection.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use mq_format::codes::GET_KV_CONFIG;
use mq_format::remoting::{Head, Serialize};

/// Wait for the answer to the first question; each further silent connection doubles it.
pub(super) const FIRST_PATIENCE: Duration = Duration::from_secs(1);
/// Longest wait for the answer to a question, so that a suspended server causes few connections.
const PATIENCE_MAX: Duration = Duration::from_secs(32);
/// `Silence::asked_ms` while no question is open.
const NEVER: i64 = i64::MAX;

/// What a connection should do about its peer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: the peer has answered, or no request timed out.
    Fine,
    /// Send the question, and check again at this time on the pool's clock.
    Ask(i64),
    /// A question is open; check again at this time.
    Wait(i64),
    /// The peer did not answer: close the connection.
    Silent,
}

/// Signs of life of the peer.
pub(super) struct Silence {
    patience_ms: i64,
    /// Time of the last byte received; negative before the first.
    heard_ms: AtomicI64,
    asked_ms: AtomicI64,
    /// Whether a request got its reply in time.
    is_proven: AtomicBool,
}

impl Silence {
    pub fn new(patience: Duration) -> Self {
        Self {
            patience_ms: i64::try_from(patience.as_millis()).unwrap_or(i64::MAX),
            heard_ms: AtomicI64::new(-1),
            asked_ms: AtomicI64::new(NEVER),
            is_proven: AtomicBool::new(false),
        }
    }

    /// Records that the peer sent something.
    pub fn heard(&self, now_ms: i64) {
        self.heard_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Records that a request got its reply in time.
    pub fn proven(&self) {
        self.is_proven.store(true, Ordering::Relaxed);
    }

    /// Whether the peer has sent nothing since that time.
    pub fn lasts_since(&self, ms: i64) -> bool {
        self.heard_ms.load(Ordering::Relaxed) < ms
    }

    /// Judges the peer. `is_suspect`: a request timed out that was sent after the last byte
    /// arrived.
    pub fn judge(&self, now_ms: i64, is_suspect: bool) -> Verdict {
        let asked_ms = self.asked_ms.load(Ordering::Relaxed);
        if asked_ms != NEVER && self.lasts_since(asked_ms) {
            let until_ms = asked_ms.saturating_add(self.patience_ms);
            return match now_ms < until_ms {
                true => Verdict::Wait(until_ms),
                false => Verdict::Silent,
            };
        }
        let next_ms = if is_suspect { now_ms } else { NEVER };
        self.asked_ms.store(next_ms, Ordering::Relaxed);
        match is_suspect {
            true => Verdict::Ask(now_ms.saturating_add(self.patience_ms)),
            false => Verdict::Fine,
        }
    }

    /// Returns the patience of the connection that replaces a silent one. A server that answers no
    /// connection in time gets fewer and fewer of them.
    pub fn next_patience(&self) -> Duration {
        if self.is_proven.load(Ordering::Relaxed) {
            return FIRST_PATIENCE;
        }
        let own = Duration::from_millis(self.patience_ms.unsigned_abs());
        (own * 2).min(PATIENCE_MAX)
    }
}

/// Appends the question. A NameServer answers that it has no such key, any other server that it
/// does not know the code.
pub(super) fn encode_question(opaque: i32, out: &mut Vec<u8>) {
    let fields = [("namespace", "".into()), ("key", "".into())];
    Head::request(GET_KV_CONFIG, opaque, Serialize::Json).encode(&fields, b"", out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_open_question_without_an_answer_is_silence() {
        let silence = Silence::new(FIRST_PATIENCE);
        assert_eq!(silence.judge(10, false), Verdict::Fine);
        assert_eq!(silence.judge(3000, true), Verdict::Ask(4000));
        assert_eq!(silence.judge(3500, true), Verdict::Wait(4000));
        silence.heard(3900);
        assert_eq!(silence.judge(4000, false), Verdict::Fine);
        assert_eq!(silence.judge(9000, true), Verdict::Ask(10_000));
        assert_eq!(silence.judge(10_000, false), Verdict::Silent);
    }

    #[test]
    fn a_server_that_never_answers_gets_fewer_connections() {
        let mut patience = FIRST_PATIENCE;
        let mut waits = Vec::new();
        for _ in 0..7 {
            patience = Silence::new(patience).next_patience();
            waits.push(patience.as_secs());
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 32, 32]);
        let proven = Silence::new(patience);
        proven.proven();
        assert_eq!(proven.next_patience(), FIRST_PATIENCE);
    }
}
