//! Columns made for tests, and the values read from them.

use super::super::rows::{BadColumn, Keys, Lists, Maps, Numbers, Rows, Spans, Texts};

/// Text or bytes with their buffers.
#[derive(Default)]
pub struct Column {
    validity: Vec<u8>,
    ends: Vec<u8>,
    values: Vec<u8>,
    len: usize,
}

impl Column {
    pub fn of<T: AsRef<[u8]>>(values: impl IntoIterator<Item = Option<T>>) -> Self {
        let mut column = Self {
            ends: 0_i32.to_ne_bytes().to_vec(),
            ..Self::default()
        };
        for value in values {
            column.validity.resize(column.len / 8 + 1, 0);
            if let Some(value) = value {
                column.validity[column.len / 8] |= 1 << (column.len % 8);
                column.values.extend_from_slice(value.as_ref());
            }
            let end = column.values.len() as i32;
            column.ends.extend_from_slice(&end.to_ne_bytes());
            column.len += 1;
        }
        column
    }

    pub fn texts(&self) -> Texts<'_> {
        self.from(0)
    }

    pub fn from(&self, offset: usize) -> Texts<'_> {
        let place = (offset, self.len - offset);
        let values = self.values.len();
        let spans = Spans::new(Some(&self.validity), &self.ends, place, values).unwrap();
        Texts::new(spans, &self.values)
    }

    pub fn rows(&self) -> Rows<'_> {
        Rows {
            len: self.len,
            body: self.texts(),
            topic: None,
            tags: None,
            keys: None,
            properties: None,
            flag: None,
            delay_level: None,
            order_key: None,
        }
    }
}

pub fn numbers(values: &[i32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect()
}

#[test]
fn a_column_is_read_from_its_offset_on() {
    let column = Column::of((0..20).map(|at| (at % 3 != 0).then(|| at.to_string())));
    for offset in [0, 1, 7, 8, 9, 19] {
        let texts = column.from(offset);
        for row in 0..20 - offset {
            let at = offset + row;
            let wanted = (at % 3 != 0).then(|| at.to_string());
            assert_eq!(texts.bytes(row), wanted.as_deref().map(str::as_bytes));
        }
    }
}

#[test]
fn maps_and_lists_are_read_by_row() {
    let names = Column::of([Some("a"), Some("b"), Some("c")]);
    let values = Column::of([Some("1"), None, Some("3")]);
    let ends = numbers(&[0, 2, 2, 3]);
    let maps = Maps {
        spans: Spans::new(None, &ends, (0, 3), 3).unwrap(),
        names: names.texts(),
        values: values.texts(),
    };
    let pairs = |row| maps.pairs(row).map(|(name, value)| [name, value].concat());
    assert_eq!(pairs(0).collect::<Vec<_>>(), [b"a1"]);
    assert_eq!(pairs(1).count(), 0);
    assert_eq!(pairs(2).collect::<Vec<_>>(), [b"c3"]);
    let lists = Lists {
        spans: Spans::new(Some(&[0b101]), &ends, (0, 3), 3).unwrap(),
        items: values.texts(),
    };
    let items = |row| lists.items(row).collect::<Vec<_>>();
    assert_eq!(items(0), [Some(&b"1"[..]), None]);
    assert_eq!(items(2), [Some(&b"3"[..])]);
    assert!(matches!(Keys::Lists(lists), Keys::Lists(_)));
}

#[test]
fn buffers_that_are_too_short_or_out_of_order_are_refused() {
    let good = numbers(&[0, 2, 3]);
    let is_refused = |validity, ends: &[u8], place, values| {
        matches!(Spans::new(validity, ends, place, values), Err(BadColumn(_)))
    };
    assert!(!is_refused(None, &good, (0, 2), 3));
    assert!(is_refused(None, &good, (0, 3), 3));
    assert!(is_refused(None, &good, (1, 2), 3));
    assert!(is_refused(None, &good, (0, 2), 2));
    assert!(is_refused(None, &numbers(&[0, 3, 2]), (0, 2), 3));
    assert!(is_refused(None, &numbers(&[-1, 2, 3]), (0, 2), 3));
    assert!(is_refused(Some(&[]), &good, (0, 2), 3));
    assert!(Numbers::new(None, &good, (2, 2)).is_err());
    assert!(!is_refused(None, &[], (0, 0), 0));
}
