//! Which groups' SQL92 filters a message passes, as bits in the consume queue extension
//! (`CommitLogDispatcherCalcBitMap`). If the bits of a group are clear, its reader can skip the
//! message without reading it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::tables::table::{Change, StaleVersion, Table};
use mq_format::bloom;
use mq_format::filter::Sql;
use mq_store::{BloomHint, MessageFilter};

/// One group's filter for a topic.
#[derive(Debug, Clone)]
pub struct GroupFilter {
    /// The group.
    pub group: String,
    /// Its SQL92 expression.
    pub sql: Arc<Sql>,
    /// Its bits.
    pub marks: Arc<BloomHint>,
}

impl GroupFilter {
    /// Whether both are the same filter, so that bits written for one are valid for the other.
    fn is(&self, other: &Self) -> bool {
        self.group == other.group
            && self.sql.text() == other.sql.text()
            && self.marks.same_bits(&other.marks)
    }
}

/// The filters of all groups for one topic. Groups without online clients are included: their
/// consumers may return and read messages that are stored in the meantime.
#[derive(Debug, Clone, Default)]
pub struct FilterRow {
    /// Number of bits of a message.
    pub bit_count: u32,
    /// The filters, one per group.
    pub filters: Vec<GroupFilter>,
}

impl FilterRow {
    /// Returns the bits of a message with these properties.
    pub fn bitmap(&self, properties: &[u8]) -> Vec<u8> {
        let mut bitmap = vec![0; self.bit_count.div_ceil(8) as usize];
        for filter in &self.filters {
            if filter.sql.matches(properties) {
                bloom::set(&mut bitmap, filter.marks.positions());
            }
        }
        bitmap
    }

    /// Returns the filter of a group with this expression, with the group's bits.
    fn filter(&self, group: &str, sql: &Sql) -> Option<MessageFilter> {
        let mut filters = self.filters.iter();
        let found = filters.find(|one| one.group == group && one.sql.text() == sql.text())?;
        let (sql, marks) = (Arc::clone(&found.sql), Arc::clone(&found.marks));
        Some(MessageFilter::Marked(sql, marks))
    }
}

/// The filters of all topics, and the log offsets from which their bits are valid.
#[derive(Debug, Default)]
pub struct Filters {
    rows: Table<FilterRow>,
    /// The filters in `rows`, by topic; locked while changes are published.
    known: Mutex<HashMap<String, Vec<GroupFilter>>>,
}

impl Filters {
    /// Returns the bits of a message; None if its topic has no filters.
    pub fn bitmap(&self, topic: &str, properties: &[u8]) -> Option<Vec<u8>> {
        self.rows.with(topic, |row| row.bitmap(properties))
    }

    /// Returns the filter for a subscription with this expression; with bits if the same filter is
    /// published.
    pub fn of(&self, group: &str, topic: &str, sql: &Arc<Sql>) -> MessageFilter {
        let marked = self.rows.with(topic, |row| row.filter(group, sql));
        marked
            .flatten()
            .unwrap_or_else(|| MessageFilter::Sql(Arc::clone(sql)))
    }

    /// Publishes changes. `log_end` returns the current end of the log; bits of new filters are
    /// valid from there on.
    ///
    /// # Errors
    /// If the version does not rise, as for every table.
    pub fn publish(
        &self,
        version: i64,
        mut changes: Vec<Change<FilterRow>>,
        replace: bool,
        log_end: impl Fn() -> i64,
    ) -> Result<(), StaleVersion> {
        let mut known = self.known.lock();
        let mut next = if replace {
            HashMap::new()
        } else {
            known.clone()
        };
        let (mut fresh, mut kept) = (Vec::new(), Vec::new());
        for (topic, row) in &mut changes {
            let before = known.get(topic).map_or(&[][..], Vec::as_slice);
            next.remove(topic);
            let Some(row) = row else { continue };
            for filter in &mut row.filters {
                match before.iter().find(|one| one.is(filter)) {
                    Some(same) => filter.marks = Arc::clone(&same.marks),
                    None => fresh.push(Arc::clone(&filter.marks)),
                }
            }
            next.insert(topic.clone(), row.filters.clone());
        }
        kept.extend(next.values().flatten().map(|one| Arc::as_ptr(&one.marks)));
        // Readers that still use an old filter must stop trusting its bits before other bits are
        // written.
        let gone = known.values().flatten();
        gone.filter(|one| !kept.contains(&Arc::as_ptr(&one.marks)))
            .for_each(|one| one.marks.invalidate());
        self.rows.publish(version, changes, replace)?;
        *known = next;
        let end = log_end();
        fresh.iter().for_each(|marks| marks.set_valid_from(end));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(group: &str, text: &str, positions: [u32; 3]) -> GroupFilter {
        GroupFilter {
            group: group.into(),
            sql: Arc::new(Sql::compile(text).unwrap()),
            marks: Arc::new(BloomHint::new(112, positions.into())),
        }
    }

    fn marks(filters: &Filters, group: &str, text: &str) -> Option<Arc<BloomHint>> {
        let sql = Arc::new(Sql::compile(text).unwrap());
        match filters.of(group, "T", &sql) {
            MessageFilter::Marked(_, marks) => Some(marks),
            other => {
                assert!(other.is_sql());
                None
            }
        }
    }

    #[test]
    fn bits_are_trusted_from_the_publication_of_their_filter() {
        let filters = Filters::default();
        let row = |filters: Vec<GroupFilter>| FilterRow {
            bit_count: 112,
            filters,
        };
        let mut version = 0;
        let mut publish = |rows: Vec<Change<FilterRow>>, replace, end| {
            version += 1;
            filters.publish(version, rows, replace, || end).unwrap();
        };
        assert!(marks(&filters, "g", "a > 5").is_none());
        let (g, h) = (
            filter("g", "a > 5", [1, 2, 3]),
            filter("h", "a > 6", [4, 5, 6]),
        );
        publish(vec![("T".into(), Some(row(vec![g.clone()])))], false, 100);
        let first = marks(&filters, "g", "a > 5").unwrap();
        assert_eq!(first.valid_from(), 100);
        // Another group is added; the existing groups keep their bits.
        let again = filter("g", "a > 5", [1, 2, 3]);
        publish(vec![("T".into(), Some(row(vec![again, h])))], false, 200);
        assert!(Arc::ptr_eq(&first, &marks(&filters, "g", "a > 5").unwrap()));
        assert_eq!(marks(&filters, "h", "a > 6").unwrap().valid_from(), 200);
        // The group changes its expression; readers with the old filter must no longer trust any
        // bits.
        let changed = filter("g", "a > 7", [1, 2, 3]);
        publish(vec![("T".into(), Some(row(vec![changed])))], true, 300);
        assert_eq!(first.valid_from(), i64::MAX);
        assert!(marks(&filters, "g", "a > 5").is_none());
        let newest = marks(&filters, "g", "a > 7").unwrap();
        assert_eq!(newest.valid_from(), 300);
        publish(vec![("T".into(), None)], false, 400);
        assert_eq!(newest.valid_from(), i64::MAX);
        assert!(filters.bitmap("T", b"a\x018").is_none());
    }

    #[test]
    fn a_bitmap_has_the_bits_of_the_filters_that_match() {
        let filter = |text, positions: [u32; 3]| filter("g", text, positions);
        // The groups are those in golden/store-ext.
        let row = FilterRow {
            bit_count: 112,
            filters: vec![
                filter("a > 5", [80, 74, 68]),
                filter("b IS NOT NULL", [37, 36, 35]),
            ],
        };
        let hex = |properties: &[u8]| {
            let bytes = row.bitmap(properties).into_iter();
            bytes.map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        assert_eq!(hex(b"b\x01x"), "0000000038000000000000000000");
        assert_eq!(hex(b"a\x016\x02b\x01x"), "0000000038000000100401000000");
        assert_eq!(hex(b"a\x015"), "0".repeat(28));
    }
}
