//! What a thread looked up last in the tables. Most sends ask for the same as the one before, and
//! to look it up takes locks, a hash of the name and a count of who holds the row.

use std::cell::Cell;
use std::sync::Arc;

use super::broker_row::BrokerRow;
use super::tables::{Tables, TopicRow};

thread_local! {
    static LATELY: Cell<Lately> = const { Cell::new(Lately { broker: None, topic: None }) };
}

/// Rows, each with the publication it was looked up in: it holds while the table has no other.
#[derive(Default)]
pub(super) struct Lately {
    broker: Option<(u64, Arc<BrokerRow>)>,
    topic: Option<(u64, Arc<str>, TopicRow)>,
}

impl Lately {
    /// Gives `work` what this thread looked up last, and keeps what it looks up. Within `work` the
    /// thread has nothing kept.
    pub(super) fn with<T>(work: impl FnOnce(&mut Self) -> T) -> T {
        let mut lately = LATELY.take();
        let result = work(&mut lately);
        LATELY.set(lately);
        result
    }

    /// The broker's settings, None until they are published.
    pub(super) fn broker(&mut self, tables: &Tables) -> Option<&Arc<BrokerRow>> {
        let now = tables.broker.publication();
        if self.broker.as_ref().is_none_or(|(then, _)| *then != now) {
            self.broker = tables.broker().map(|row| (now, row));
        }
        self.broker.as_ref().map(|(_, row)| row)
    }

    /// The row of a topic, None without one.
    pub(super) fn topic(&mut self, tables: &Tables, name: &str) -> Option<TopicRow> {
        let now = tables.topics.publication();
        if let Some((then, known, row)) = &self.topic
            && *then == now
            && **known == *name
        {
            return Some(*row);
        }
        let (name, row) = tables.topics.named(name, TopicRow::clone)?;
        self.topic = Some((now, name, row));
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(queues: i32) -> TopicRow {
        TopicRow::new("T", 6, (queues, queues), false, false)
    }

    fn publish(tables: &Tables, version: i64, queues: Option<i32>) {
        let changes = vec![("T".to_owned(), queues.map(topic))];
        tables.topics.publish(version, changes, false).unwrap();
    }

    #[test]
    fn a_row_holds_until_the_next_publication() {
        let tables = Tables::default();
        let looked_up = |name| Lately::with(|lately| lately.topic(&tables, name));
        assert_eq!(looked_up("T"), None);
        publish(&tables, 1, Some(4));
        assert_eq!(
            (looked_up("T"), looked_up("T")),
            (Some(topic(4)), Some(topic(4)))
        );
        assert_eq!((looked_up("U"), looked_up("T")), (None, Some(topic(4))));
        publish(&tables, 2, Some(8));
        assert_eq!(looked_up("T"), Some(topic(8)));
        publish(&tables, 3, None);
        assert_eq!(looked_up("T"), None);
    }

    #[test]
    fn tables_of_two_servers_are_told_apart() {
        let both = [Tables::default(), Tables::default()];
        for (tables, queues) in both.iter().zip([1, 2]) {
            publish(tables, 1, Some(queues));
            let cluster_name = format!("C{queues}");
            let row = BrokerRow {
                cluster_name,
                ..BrokerRow::default()
            };
            tables.broker.publish(1, row).unwrap();
        }
        for _ in 0..2 {
            for (tables, queues) in both.iter().zip([1, 2]) {
                let found = Lately::with(|lately| {
                    let row = lately.topic(tables, "T");
                    (
                        row,
                        lately.broker(tables).map(|row| row.cluster_name.clone()),
                    )
                });
                assert_eq!(found, (Some(topic(queues)), Some(format!("C{queues}"))));
            }
        }
        let unpublished = Tables::default();
        assert!(Lately::with(|lately| lately.broker(&unpublished).is_none()));
    }
}
