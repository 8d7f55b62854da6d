//! Published settings of a subscription group.

/// A subscription group's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupRow {
    /// `consumeEnable`.
    pub consume_enable: bool,
    /// `consumeBroadcastEnable`.
    pub broadcast_enable: bool,
    /// `brokerId`: the broker to pull from while the group keeps up, if slaves are read.
    pub broker_id: i64,
    /// `whichBrokerWhenConsumeSlowly`: the broker to pull from while the group lags.
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
