//! A range to read: where from, and with which limits.

use std::time::Duration;

use super::check::Rules;
use super::window::Limits;

/// Which messages of the queue to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subscription {
    /// All messages.
    All,
    /// Messages with one of these tags: "a
    ///
    /// b".
    Tags(String),
    /// Messages whose properties match an SQL92 expression; the broker needs enablePropertyFilter.
    Sql92(String),
}

/// A range of one queue, and the limits of reading it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The master's "host:port"; None while it is not registered.
    pub master: Option<String>,
    /// A slave's "host:port", used while the master fails. Only the master decides that offsets are
    /// gone.
    pub slave: Option<String>,
    /// The broker's name, as routes have it.
    pub broker_name: String,
    /// The topic.
    pub topic: String,
    /// The queue of the topic.
    pub queue_id: i32,
    /// The first offset.
    pub first: i64,
    /// The offset after the last one.
    pub end: i64,
    /// The group for which the broker counts the pulls; no offset is committed for it.
    pub group: String,
    /// Which messages.
    pub subscription: Subscription,
    /// Pulls in flight, bytes that wait, and messages of a pull.
    pub limits: Limits,
    /// Timeout of one pull, including the connection.
    pub pull_timeout: Duration,
    /// How long a pull is retried after temporary failures.
    pub outage_budget: Duration,
}

impl Plan {
    /// Checks that every field is in its range; the error names the field and its value.
    pub fn check(&self) -> Result<(), String> {
        let Limits {
            count_max,
            in_flight_max,
            waiting_bytes_max,
        } = self.limits;
        let bad = |name: &str, value: &dyn std::fmt::Display, rule: &str| {
            Err(format!("{name} is {value}, but must be {rule}"))
        };
        match self {
            Self { master, slave, .. } if master.is_none() && slave.is_none() => {
                Err("a master or a slave is needed".to_owned())
            }
            Self { first, .. } if *first < 0 => bad("the first offset", first, "0 or more"),
            Self { first, end, .. } if end < first => bad(
                "the end",
                end,
                &format!("{first} or more, the first offset"),
            ),
            Self { queue_id, .. } if *queue_id < 0 => bad("the queue", queue_id, "0 or more"),
            _ if count_max < 1 => bad("the messages of a pull", &count_max, "1 or more"),
            _ if in_flight_max < 1 => bad("the pulls in flight", &in_flight_max, "1 or more"),
            _ if waiting_bytes_max < 1 => bad("the bytes in wait", &waiting_bytes_max, "1 or more"),
            Self { pull_timeout, .. } if pull_timeout.is_zero() => {
                bad("the timeout of a pull", &"0 s", "longer")
            }
            _ => Ok(()),
        }
    }

    pub(super) fn rules(&self) -> Rules {
        let is_filtered = self.subscription != Subscription::All;
        Rules::new(&self.topic, self.queue_id, is_filtered)
    }
}

impl Subscription {
    /// The request's expressionType and subscription.
    pub(super) fn texts(&self) -> (&'static str, &str) {
        match self {
            Self::All => ("TAG", "*"),
            Self::Tags(tags) => ("TAG", tags),
            Self::Sql92(condition) => ("SQL92", condition),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::model::plan;

    #[test]
    fn each_limit_is_checked_and_named() {
        assert_eq!(plan("a:1").check(), Ok(()));
        let refused = |change: fn(&mut super::Plan), text: &str| {
            let mut plan = plan("a:1");
            change(&mut plan);
            assert_eq!(plan.check().unwrap_err(), text);
        };
        refused(|plan| plan.master = None, "a master or a slave is needed");
        refused(
            |plan| plan.first = -1,
            "the first offset is -1, but must be 0 or more",
        );
        refused(
            |plan| (plan.first, plan.end) = (7, 6),
            "the end is 6, but must be 7 or more, the first offset",
        );
        refused(
            |plan| plan.queue_id = -2,
            "the queue is -2, but must be 0 or more",
        );
        refused(
            |plan| plan.limits.count_max = 0,
            "the messages of a pull is 0, but must be 1 or more",
        );
        refused(
            |plan| plan.limits.in_flight_max = 0,
            "the pulls in flight is 0, but must be 1 or more",
        );
        refused(
            |plan| plan.limits.waiting_bytes_max = 0,
            "the bytes in wait is 0, but must be 1 or more",
        );
        refused(
            |plan| plan.pull_timeout = std::time::Duration::ZERO,
            "the timeout of a pull is 0 s, but must be longer",
        );
    }
}
