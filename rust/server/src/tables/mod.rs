//! What Python published: the facts native requests are decided by, read without asking Python.
//!
//! Python owns topics, groups and membership and publishes each change; a table is a map from a
//! name to a small row, in shards so that readers rarely meet a writer.

pub(crate) mod acl;
pub(crate) mod acl_needs;
pub(crate) mod answers;
pub(crate) mod bitmaps;
pub(crate) mod broker_row;
pub(crate) mod group_row;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use thiserror::Error;

use crate::tables::acl::AclTable;
use crate::tables::bitmaps::Filters;
use crate::tables::broker_row::BrokerRow;
use crate::tables::group_row::GroupRow;
use mq_format::filter::Sql;
use mq_store::TagFilter;

/// Shards of one table; a power of two.
const SHARDS: usize = 16;

/// Permission bit of a broker or topic: may be read.
pub const PERM_READ: i32 = 4;

/// Topics the broker itself writes; a client's send to them is refused (by Python, in words).
const FORBIDDEN_TOPICS: [&str; 6] = [
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
];

/// A publication whose version does not exceed the table's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("version {offered} does not exceed version {current} of this table; publish rising ones")]
pub struct StaleVersion {
    /// The version that was published.
    pub offered: i64,
    /// The version the table has.
    pub current: i64,
}

/// One change: a name, and its row, or None to delete it.
pub type Change<R> = (String, Option<R>);

/// A published map. Reads take one shard's read lock for the time of a lookup.
#[derive(Debug)]
pub struct Table<R> {
    version: Mutex<i64>,
    /// A name is shared with those who keep it for long.
    shards: [RwLock<HashMap<Arc<str>, R>>; SHARDS],
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self {
            version: Mutex::new(i64::MIN),
            shards: std::array::from_fn(|_| RwLock::default()),
        }
    }
}

impl<R> Table<R> {
    /// Applies all changes as one: no reader sees a part of them. With `replace`, names that are
    /// not among the changes are deleted.
    pub fn publish(
        &self,
        version: i64,
        changes: Vec<Change<R>>,
        replace: bool,
    ) -> Result<(), StaleVersion> {
        let mut current = self.version.lock();
        if version <= *current {
            return Err(StaleVersion {
                offered: version,
                current: *current,
            });
        }
        // All shards, always in this order: two publications cannot block each other, and a
        // reader finds either none or all of the changes.
        let mut shards = self.shards.each_ref().map(RwLock::write);
        if replace {
            shards.iter_mut().for_each(|shard| shard.clear());
        }
        for (name, row) in changes {
            let shard = &mut shards[shard_of(&name)];
            match row {
                Some(row) => shard.insert(name.into(), row),
                None => shard.remove(&*name),
            };
        }
        *current = version;
        Ok(())
    }

    /// What `read` makes of the row of `name`, or None without one. `read` must be short.
    pub fn with<T>(&self, name: &str, read: impl FnOnce(&R) -> T) -> Option<T> {
        self.shards[shard_of(name)].read().get(name).map(read)
    }

    /// As `with`, and the table's own name: who keeps it needs no copy.
    pub(crate) fn named<T>(&self, name: &str, read: impl FnOnce(&R) -> T) -> Option<(Arc<str>, T)> {
        let shard = self.shards[shard_of(name)].read();
        let (name, row) = shard.get_key_value(name)?;
        Some((Arc::clone(name), read(row)))
    }

    /// A copy of the row.
    pub fn get(&self, name: &str) -> Option<R>
    where
        R: Clone,
    {
        self.with(name, R::clone)
    }
}

/// A published table of one row.
#[derive(Debug)]
pub struct Single<R> {
    /// Read without the lock.
    is_published: AtomicBool,
    row: RwLock<Option<(i64, Arc<R>)>>,
}

impl<R> Default for Single<R> {
    fn default() -> Self {
        Self {
            is_published: AtomicBool::new(false),
            row: RwLock::default(),
        }
    }
}

impl<R> Single<R> {
    /// Replaces the row.
    pub fn publish(&self, version: i64, row: R) -> Result<(), StaleVersion> {
        let mut current = self.row.write();
        if let Some((current, _)) = *current
            && version <= current
        {
            return Err(StaleVersion {
                offered: version,
                current,
            });
        }
        *current = Some((version, Arc::new(row)));
        self.is_published.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether there is a row.
    pub(crate) fn is_published(&self) -> bool {
        self.is_published.load(Ordering::Acquire)
    }

    /// What `read` makes of the row, None until one is published. `read` must be short.
    pub fn with<T>(&self, read: impl FnOnce(&R) -> T) -> Option<T> {
        self.row.read().as_ref().map(|(_, row)| read(row))
    }

    /// The row, None until one is published.
    pub fn get(&self) -> Option<Arc<R>> {
        let current = self.row.read();
        current.as_ref().map(|(_, row)| Arc::clone(row))
    }
}

/// Cheap and good enough: names of one deployment differ in length or in their last bytes.
fn shard_of(name: &str) -> usize {
    let bytes = name.as_bytes();
    let tail = bytes.iter().rev().take(4);
    tail.fold(bytes.len(), |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(usize::from(*byte))
    }) % SHARDS
}

/// A topic's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicRow {
    /// Permission bits.
    pub perm: i32,
    /// `readQueueNums`.
    pub read_queues: i32,
    /// `writeQueueNums`.
    pub write_queues: i32,
    /// Filter type MULTI_TAG: sets a bit of each message's system flag.
    pub multi_tag: bool,
    /// A send needs no look at anything but this row: no order, retry, DLQ or forbidden topic.
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

/// What one group wants of one topic, from its newest heartbeat.
#[derive(Debug, Clone)]
pub struct Subscription {
    /// By tags; else by `sql`.
    pub by_tag: bool,
    /// The expression of type SQL92, None if it does not compile: Python says so.
    pub sql: Option<Arc<Sql>>,
    /// The expression is `*`.
    pub everything: bool,
    /// `subVersion`.
    pub version: i64,
    /// Java string hashes of the tags.
    pub codes: Arc<[i32]>,
}

/// The clients of a group, as far as pulls need them; no row means that none is online.
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
    /// The broker's settings; none until published (then Python decides everything).
    pub broker: Single<BrokerRow>,
    /// Topic name to configuration.
    pub topics: Table<TopicRow>,
    /// Group name to configuration.
    pub groups: Table<GroupRow>,
    /// Group name to its online clients' subscriptions.
    pub subscriptions: Table<SubscriptionRow>,
    /// Topic name to the filters of its groups; empty unless bitmaps are wanted.
    pub filters: Filters,
    /// Accounts and white lists; empty while access control is off.
    pub acl: AclTable,
}

impl Tables {
    /// The broker's settings.
    pub fn broker(&self) -> Option<Arc<BrokerRow>> {
        self.broker.get()
    }

    /// The broker that a group is told to pull from next. is_slow: it is far behind.
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

    /// Which messages of a retry topic its group wants, by the expressions for the topics they
    /// first came from; None for other topics, and for groups without expressions.
    pub fn retried_filter(&self, topic: &str) -> Option<TagFilter> {
        let group = topic.strip_prefix("%RETRY%")?;
        let by_topic = self.subscriptions.with(group, |row| {
            let topics = row.topics.iter();
            let known = topics.filter_map(|(topic, row)| Some((topic, row.sql.as_ref()?)));
            let known = known.map(|(topic, sql)| (topic.clone(), Arc::clone(sql)));
            known.collect::<HashMap<_, _>>()
        })?;
        (!by_topic.is_empty()).then(|| TagFilter::Retried(Arc::new(by_topic)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishes_changes_deletes_and_replaces() {
        let table = Table::default();
        table
            .publish(1, vec![("a".into(), Some(1)), ("b".into(), Some(2))], false)
            .unwrap();
        assert_eq!((table.get("a"), table.get("b")), (Some(1), Some(2)));
        table.publish(2, vec![("a".into(), None)], false).unwrap();
        assert_eq!((table.get("a"), table.get("b")), (None, Some(2)));
        table.publish(3, vec![("c".into(), Some(3))], true).unwrap();
        assert_eq!((table.get("b"), table.get("c")), (None, Some(3)));
    }

    #[test]
    fn refuses_versions_that_do_not_rise() {
        let table = Table::<i32>::default();
        table.publish(5, Vec::new(), true).unwrap();
        let stale = StaleVersion {
            offered: 5,
            current: 5,
        };
        assert_eq!(
            table.publish(5, vec![("a".into(), Some(1))], false),
            Err(stale)
        );
        assert_eq!(table.get("a"), None);
    }

    #[test]
    fn slaves_are_suggested_where_they_are_read_and_the_group_wants_it() {
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
