//! What the tables know of a subscription group.

/// A subscription group's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupRow {
    /// `consumeEnable`.
    pub consume_enable: bool,
    /// `consumeBroadcastEnable`.
    pub broadcast_enable: bool,
    /// `brokerId`: pulled from while the group keeps up, if slaves are read.
    pub broker_id: i64,
    /// `whichBrokerWhenConsumeSlowly`: the same while it does not.
    pub slow_broker_id: i64,
}

/// RocketMQ's defaults (`SubscriptionGroupConfig`).
impl Default for GroupRow {
    fn default() -> Self {
        Self {
            consume_enable: true,
            broadcast_enable: true,
            broker_id: 0,
            slow_broker_id: 1,
        }
    }
}
