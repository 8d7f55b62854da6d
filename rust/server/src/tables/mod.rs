//! Tables that Python published, from which native requests are decided without asking Python.
//!
//! Python owns topics, groups and membership, and publishes each change. A table maps names to
//! small rows, in shards so that readers rarely wait for a writer.

pub(crate) mod acl;
pub(crate) mod acl_needs;
pub(crate) mod answers;
pub(crate) mod bitmaps;
pub(crate) mod broker_row;
pub(crate) mod table;

use std::collections::HashMap;
use std::sync::Arc;

use crate::tables::acl::AclTable;
use crate::tables::answers::Answers;
use crate::tables::bitmaps::Filters;
use crate::tables::broker_row::BrokerRow;
use crate::tables::table::{Single, Table};
use mq_format::filter::Sql;
use mq_store::MessageFilter;

/// Permission bit of a broker or topic: may be read.
pub const PERM_READ: i32 = 4;

/// Topics that only the broker writes; Python refuses a client's send to them with a text.
const FORBIDDEN_TOPICS: [&str; 6] = [
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
];

/// A topic's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicRow {
    /// Permission bits.
    pub perm: i32,
    /// `readQueueNums`.
    pub read_queues: i32,
    /// `writeQueueNums`.
    pub write_queues: i32,
    /// Whether the topic's filter type is MULTI_TAG, which sets a bit of each message's system
    /// flag.
    pub multi_tag: bool,
    /// Whether a send needs only this row: no order, retry, dead-letter or forbidden topic.
    pub plain: bool,
}

impl TopicRow {
    /// The row of topic `name`, as Python publishes it.
    pub fn new(name: &str, perm: i32, queues: (i32, i32), multi_tag: bool, order: bool) -> Self {
        let special = order
            || name.starts_with("%RETRY%")
            || name.starts_with("%DLQ%")
            || FORBIDDEN_TOPICS.contains(&name);
        Self {
            perm,
            read_queues: queues.0,
            write_queues: queues.1,
            multi_tag,
            plain: !special,
        }
    }
}

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

/// One group's subscription to one topic, from its newest heartbeat.
#[derive(Debug, Clone)]
pub struct Subscription {
    /// Whether it selects by tags; otherwise by `sql`.
    pub by_tag: bool,
    /// The SQL92 expression; None if it does not compile. Python refuses its pulls with a text.
    pub sql: Option<Arc<Sql>>,
    /// Whether the expression is `*`.
    pub everything: bool,
    /// `subVersion`.
    pub version: i64,
    /// Java string hashes of the tags.
    pub codes: Arc<[i32]>,
}

/// The clients of a group, as far as pulls need them; without a row no client is online.
#[derive(Debug, Clone, Default)]
pub struct SubscriptionRow {
    /// Message model BROADCASTING.
    pub broadcasting: bool,
    /// Topic to subscription.
    pub topics: HashMap<String, Subscription>,
}

/// All published tables.
#[derive(Debug, Default)]
pub struct Tables {
    /// The broker's settings; until they are published, Python decides everything.
    pub broker: Single<BrokerRow>,
    /// Topic name to configuration.
    pub topics: Table<TopicRow>,
    /// Group name to configuration.
    pub groups: Table<GroupRow>,
    /// Group name to its online clients' subscriptions.
    pub subscriptions: Table<SubscriptionRow>,
    /// Topic name to the filters of its groups; empty unless bitmaps are enabled.
    pub filters: Filters,
    /// Accounts and white lists; empty while access control is off.
    pub acl: AclTable,
    /// Reply bodies.
    pub answers: Answers,
}

impl Tables {
    /// The broker's settings.
    pub fn broker(&self) -> Option<Arc<BrokerRow>> {
        self.broker.get()
    }

    /// Returns the broker that a group should pull from next. `is_slow`: the group lags far behind.
    pub fn next_broker(&self, group: &str, is_slow: bool) -> i64 {
        if self.broker.with(|row| row.slave_read) != Some(true) {
            return 0;
        }
        let told = self.groups.with(group, |row| match is_slow {
            true => row.slow_broker_id,
            false => row.broker_id,
        });
        told.unwrap_or(0)
    }

    /// Returns the filter of a retry topic, from its group's expressions for the original topics.
    /// None for other topics, and for groups without expressions.
    pub fn retried_filter(&self, topic: &str) -> Option<MessageFilter> {
        let group = topic.strip_prefix("%RETRY%")?;
        let by_topic = self.subscriptions.with(group, |row| {
            let topics = row.topics.iter();
            let known = topics.filter_map(|(topic, row)| Some((topic, row.sql.as_ref()?)));
            let known = known.map(|(topic, sql)| (topic.clone(), Arc::clone(sql)));
            known.collect::<HashMap<_, _>>()
        })?;
        (!by_topic.is_empty()).then(|| MessageFilter::Retried(Arc::new(by_topic)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slaves_are_suggested_if_broker_and_group_allow_it() {
        let tables = Tables::default();
        let group = GroupRow {
            broker_id: 2,
            slow_broker_id: 3,
            ..GroupRow::default()
        };
        let changes = vec![("g".into(), Some(group))];
        tables.groups.publish(1, changes, false).unwrap();
        assert_eq!(tables.next_broker("g", true), 0);
        for (version, slave_read, expected) in [(1, false, [0, 0, 0]), (2, true, [2, 3, 0])] {
            let row = BrokerRow {
                slave_read,
                ..BrokerRow::default()
            };
            tables.broker.publish(version, row).unwrap();
            let told = [("g", false), ("g", true), ("unknown", true)];
            assert_eq!(
                told.map(|(group, is_slow)| tables.next_broker(group, is_slow)),
                expected
            );
        }
    }

    #[test]
    fn knows_the_topics_that_need_more_than_their_row() {
        let row = |name, order| TopicRow::new(name, 6, (4, 4), false, order);
        assert!(row("TopicTest", false).plain);
        assert!(row("TBW102", false).plain);
        assert!(!row("TopicTest", true).plain);
        assert!(!row("%RETRY%g", false).plain);
        assert!(!row("SCHEDULE_TOPIC_XXXX", false).plain);
    }
}
