//! When a failed send is retried, and when it is given up.

use std::time::{Duration, Instant};

use mq_format::codes::{
    NO_BUYER_ID, NO_PERMISSION, NOT_IN_CURRENT_UNIT, SERVICE_NOT_AVAILABLE, SYSTEM_BUSY,
    SYSTEM_ERROR, TOPIC_NOT_EXIST,
};

use super::error::Why;
use crate::backoff::Backoff;
use mq_client::events::Failure;

const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Attempts after errors that another broker may not have, as `retryTimesWhenSendFailed`.
const REFUSED_RETRIES: u32 = 2;

/// How a failure affects the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// It is temporary.
    Outage,
    /// Another broker may accept the send.
    Elsewhere,
    /// Every broker would reply the same.
    Final,
}

fn class_of(why: &Why) -> Class {
    match why {
        Why::Failed(Failure::Unreachable(_) | Failure::Timeout { .. } | Failure::Busy(_)) => {
            Class::Outage
        }
        Why::Failed(Failure::BadFrame(_) | Failure::Closed) => Class::Final,
        Why::Refused { code, .. } => match *code {
            SYSTEM_BUSY | SERVICE_NOT_AVAILABLE => Class::Outage,
            SYSTEM_ERROR | TOPIC_NOT_EXIST | NO_PERMISSION | NO_BUYER_ID | NOT_IN_CURRENT_UNIT => {
                Class::Elsewhere
            }
            _ => Class::Final,
        },
    }
}

/// Failures of one send.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Retry {
    backoff: Backoff,
    refusals: u32,
}

impl Retry {
    /// Counts a failure; returns the time of the next attempt, None if another attempt is useless.
    pub fn failed(&mut self, why: &Why, now: Instant, budget: Duration) -> Option<Instant> {
        let class = class_of(why);
        if class == Class::Elsewhere {
            self.refusals += 1;
        }
        if class == Class::Final || self.refusals > REFUSED_RETRIES {
            return None;
        }
        self.backoff.failed(now, budget, PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: i32) -> Why {
        Why::Refused {
            code,
            remark: String::new(),
        }
    }

    #[test]
    fn an_outage_is_retried_until_the_budget_is_used_up() {
        let (begun, budget) = (Instant::now(), Duration::from_secs(6));
        let (mut retry, mut now, mut pauses) = (Retry::default(), begun, Vec::new());
        let why = Why::Failed(Failure::Unreachable("gone".to_owned()));
        while let Some(at) = retry.failed(&why, now, budget) {
            pauses.push((at - now).as_millis());
            now = at;
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 900]);
        assert_eq!(now, begun + budget);
    }

    #[test]
    fn a_refusal_is_tried_twice_more_or_not_at_all() {
        let (now, budget) = (Instant::now(), Duration::from_secs(60));
        for (code, attempts) in [(SYSTEM_ERROR, 2), (NO_PERMISSION, 2), (13, 0), (205, 2)] {
            let mut retry = Retry::default();
            let mut tries = || retry.failed(&refused(code), now, budget).is_some();
            assert_eq!((0..5).filter(|_| tries()).count(), attempts, "code {code}");
        }
        let mut retry = Retry::default();
        assert!((0..50).all(|_| retry.failed(&refused(SYSTEM_BUSY), now, budget).is_some()));
    }
}
