//! What to read, from where, and within which limits.

use std::time::Duration;

use super::check::Rules;
use super::window::Limits;

/// Which messages of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subscription {
    /// All of them.
    All,
    /// Those with one of these tags: "a || b".
    Tags(String),
    /// Those that match a condition on their properties; a broker needs enablePropertyFilter.
    Sql92(String),
}

/// A range of one queue, and the limits of reading it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The master's "host:port".
    pub master: String,
    /// A slave's "host:port", asked while the master fails.
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
    /// The group that pulls are counted for; nothing is committed to it.
    pub group: String,
    /// Which messages.
    pub subscription: Subscription,
    /// Pulls in flight, bytes that wait, and messages of a pull.
    pub limits: Limits,
    /// Timeout of one pull, connecting included.
    pub pull_timeout: Duration,
    /// How long one pull is tried again while it fails for a reason that passes.
    pub outage_budget: Duration,
}

impl Plan {
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
