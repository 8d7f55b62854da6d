//! Which groups' SQL92 filters a message satisfies, as bits for the consume-queue extension
//! (server.md B.10): a reader with a clear bit need not look at the message itself.

use std::sync::Arc;

use crate::filter::Sql;
use crate::format::bloom;

/// One group's filter for a topic.
#[derive(Debug, Clone)]
pub struct GroupFilter {
    /// Its expression.
    pub sql: Arc<Sql>,
    /// Its bits.
    pub positions: Vec<u32>,
}

/// The filters of all groups for one topic, of those too that nobody is online of: their
/// consumers may come back for messages that are stored meanwhile.
#[derive(Debug, Clone, Default)]
pub struct FilterRow {
    /// Bits of a message.
    pub bit_count: u32,
    /// By group.
    pub filters: Vec<GroupFilter>,
}

impl FilterRow {
    /// The bits of a message with these properties.
    pub fn bitmap(&self, properties: &[u8]) -> Vec<u8> {
        let mut bitmap = vec![0; self.bit_count.div_ceil(8) as usize];
        for filter in &self.filters {
            if filter.sql.matches(properties) {
                bloom::set(&mut bitmap, &filter.positions);
            }
        }
        bitmap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_filters_that_match() {
        let filter = |text, positions: [u32; 3]| GroupFilter {
            sql: Arc::new(Sql::compile(text).unwrap()),
            positions: positions.into(),
        };
        // The groups of golden/store-ext.
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
