//! Heartbeats that Python has acknowledged; their repetitions are answered natively.
//!
//! The effect of a heartbeat depends on its content and on what Python knows about its groups. When
//! another event changes that, Python says so ("heartbeats" of `publish`) and gets the next
//! heartbeat. An unchanged heartbeat only updates the time of the last one.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::limits::HEARTBEAT_BYTES_MAX;

/// Nesting depth of the members of a body's sets.
const SET_DEPTH: i32 = 2;

/// State that all connections share.
#[derive(Debug, Default)]
pub struct Heartbeats {
    /// Random keys, so that no client can create two bodies with the same hash.
    hasher: RandomState,
    /// Incremented when Python must get every heartbeat again.
    generation: AtomicU64,
}

/// A heartbeat on its way through Python, and the state of its connection when it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beat {
    words: u64,
    generation: u64,
    forgotten: u64,
}

/// The heartbeat state of one connection.
#[derive(Debug)]
pub(crate) struct Heart {
    known: Mutex<Known>,
    /// Monotonic milliseconds of the last heartbeat that was answered natively.
    last_ms: AtomicI64,
}

#[derive(Debug, Default)]
struct Known {
    /// How many times the heartbeat was forgotten.
    forgotten: u64,
    acknowledged: Option<Beat>,
}

impl Default for Heart {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            last_ms: AtomicI64::new(i64::MIN),
        }
    }
}

impl Heartbeats {
    /// Sends every client's next heartbeat to Python.
    pub(crate) fn forget_all(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Reads a heartbeat, with the current state of `heart`. `sender`: language and version of the
    /// client. None if the body is too long to be remembered; an earlier one is forgotten then.
    pub(crate) fn read(&self, body: &[u8], sender: (u8, i32), heart: &Heart) -> Option<Beat> {
        if body.len() > HEARTBEAT_BYTES_MAX {
            heart.forget();
            return None;
        }
        Some(Beat {
            words: self.hasher.hash_one((self.in_any_order(body), sender)),
            generation: self.generation.load(Ordering::Acquire),
            forgotten: heart.known.lock().forgotten,
        })
    }

    /// Hashes a body: everything but the members of its sets, and the members in any order. A set
    /// is an array that is a value of the outermost object. The order in Java's sets differs
    /// between two heartbeats, because `ProducerData` and `ConsumerData` have no `hashCode` and are
    /// new objects in each.
    fn in_any_order(&self, body: &[u8]) -> (u64, u64) {
        let (mut outside, mut members) = (self.hasher.build_hasher(), 0u64);
        let (mut depth, mut sets, mut hashed_to) = (0, 0, 0);
        let mut member = None; // start of the current member
        let (mut is_text, mut is_escaped) = (false, false);
        for (at, byte) in body.iter().enumerate() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_text => is_escaped = true,
                b'"' => is_text = !is_text,
                _ if is_text => {}
                b'{' => depth += 1,
                b'[' => {
                    depth += 1;
                    if depth == SET_DEPTH {
                        sets += 1;
                        outside.write(&body[hashed_to..=at]);
                        (member, hashed_to) = (Some(at + 1), at + 1);
                    }
                }
                b',' | b']' | b'}' => {
                    if depth == SET_DEPTH
                        && let Some(start) = member
                    {
                        let hash = self.hasher.hash_one((sets, &body[start..at]));
                        members = members.wrapping_add(hash);
                        outside.write(&[*byte]);
                        hashed_to = at + 1;
                        member = (*byte == b',').then_some(hashed_to);
                    }
                    depth -= i32::from(*byte != b',');
                }
                _ => {}
            }
        }
        outside.write(&body[hashed_to..]);
        (outside.finish(), members)
    }
}

impl Heart {
    /// Records that Python has acknowledged `beat`, unless it was forgotten after it arrived.
    pub(crate) fn acknowledge(&self, beat: Beat) {
        let mut known = self.known.lock();
        if known.forgotten == beat.forgotten {
            known.acknowledged = Some(beat);
        }
    }

    /// Sends the next heartbeat to Python.
    pub(crate) fn forget(&self) {
        let mut known = self.known.lock();
        known.forgotten += 1;
        known.acknowledged = None;
    }

    pub(crate) fn is_known(&self, beat: Beat) -> bool {
        self.known.lock().acknowledged == Some(beat)
    }

    /// Records a natively answered heartbeat.
    pub(crate) fn answered(&self, now_ms: i64) {
        self.last_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Monotonic milliseconds of the last natively answered heartbeat; `i64::MIN` without one.
    pub(crate) fn last_ms(&self) -> i64 {
        self.last_ms.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(words: u64, forgotten: u64) -> Beat {
        Beat {
            words,
            generation: 0,
            forgotten,
        }
    }

    #[test]
    fn only_acknowledged_heartbeats_are_known() {
        let heart = Heart::default();
        assert!(!heart.is_known(beat(1, 0)));
        heart.acknowledge(beat(1, 0));
        assert!(heart.is_known(beat(1, 0)));
        assert!(!heart.is_known(beat(2, 0)), "other words");
        heart.forget();
        assert!(!heart.is_known(beat(1, 1)));
        heart.acknowledge(beat(1, 0));
        assert!(!heart.is_known(beat(1, 1)), "it came before that");
        heart.acknowledge(beat(1, 1));
        assert!(heart.is_known(beat(1, 1)));
    }

    #[test]
    fn a_long_heartbeat_and_the_next_one_go_to_python() {
        let (all, heart) = (Heartbeats::default(), Heart::default());
        let read = |length| all.read(&vec![b'x'; length], (0, 401), &heart);
        let short = read(HEARTBEAT_BYTES_MAX).unwrap();
        heart.acknowledge(short);
        assert!(heart.is_known(read(HEARTBEAT_BYTES_MAX).unwrap()));
        assert_eq!(read(HEARTBEAT_BYTES_MAX + 1), None);
        assert!(!heart.is_known(short));
        assert!(!heart.is_known(read(HEARTBEAT_BYTES_MAX).unwrap()));
    }

    #[test]
    fn only_the_members_of_a_set_may_change_their_order() {
        let all = Heartbeats::default();
        let hash = |body: &str| all.in_any_order(body.as_bytes());
        let beat = |producers: &str, consumers: &str| {
            let client = r#""clientID":"a,b[""#;
            hash(&format!(
                r#"{{{client},"consumerDataSet":[{consumers}],"producerDataSet":[{producers}]}}"#
            ))
        };
        let [one, two] = [
            r#"{"groupName":"x]\\\","}"#,
            r#"{"groupName":"y","a":[1,2]}"#,
        ];
        let both = beat(&format!("{one},{two}"), "");
        assert_eq!(beat(&format!("{two},{one}"), ""), both);
        for other in [
            beat(one, ""),
            beat(&format!("{one},{one}"), ""),
            beat("", &format!("{one},{two}")),
            beat(one, two),
            beat(&format!(r#"{one},{{"groupName":"y","a":[2,1]}}"#), ""),
            hash(r#"{"clientID":"c"}"#),
        ] {
            assert_ne!(other, both);
        }
        assert_ne!(hash("[1,2"), hash("[2,1"), "no set of a heartbeat");
        assert_ne!(hash("]],{[1"), hash("]],{[2"), "no JSON at all");
    }

    #[test]
    fn a_new_generation_sends_heartbeats_to_python_again() {
        let (all, heart) = (Heartbeats::default(), Heart::default());
        heart.acknowledge(beat(1, 0));
        all.forget_all();
        let generation = all.generation.load(Ordering::Acquire);
        assert!(!heart.is_known(Beat {
            generation,
            ..beat(1, 0)
        }));
    }
}
