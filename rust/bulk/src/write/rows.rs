//! The columns of a write, read from their buffers in Arrow's layout.

use std::ops::Range;

use thiserror::Error;

/// Buffers that violate Arrow's layout.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the buffers are not Arrow's: {0}")]
pub struct BadColumn(pub &'static str);

/// Which values of a column are null: one bit per value, set if the value is not null.
#[derive(Debug, Clone, Copy)]
struct Validity<'a>(Option<&'a [u8]>);

impl<'a> Validity<'a> {
    fn new(bits: Option<&'a [u8]>, end: usize) -> Result<Self, BadColumn> {
        if bits.is_some_and(|bits| bits.len() < end.div_ceil(8)) {
            return Err(BadColumn("the validity is too short"));
        }
        Ok(Self(bits))
    }

    fn has(self, at: usize) -> bool {
        self.0.is_none_or(|bits| bits[at / 8] >> (at % 8) & 1 == 1)
    }
}

/// Start and end of each value within another buffer or column.
#[derive(Debug, Clone, Copy)]
pub struct Spans<'a> {
    validity: Validity<'a>,
    ends: &'a [u8],
    offset: usize,
    len: usize,
}

impl<'a> Spans<'a> {
    /// ends: 32-bit numbers, one more than values. offset: number of values before the first one.
    /// values: length of the buffer or column that they refer to.
    pub fn new(
        validity: Option<&'a [u8]>,
        ends: &'a [u8],
        (offset, len): (usize, usize),
        values: usize,
    ) -> Result<Self, BadColumn> {
        let validity = Validity::new(validity, offset + len)?;
        let spans = Self {
            validity,
            ends,
            offset,
            len,
        };
        if len == 0 {
            return Ok(spans);
        }
        if ends.len() < 4 * (offset + len + 1) {
            return Err(BadColumn("the offsets are too short"));
        }
        let mut before = 0;
        for at in offset..=offset + len {
            let end = usize::try_from(number(ends, at)).map_err(|_| BadColumn("an offset"))?;
            if end < before || end > values {
                return Err(BadColumn("an offset is out of order or out of range"));
            }
            before = end;
        }
        Ok(spans)
    }

    /// Returns None for null.
    fn get(&self, row: usize) -> Option<Range<usize>> {
        let at = self.offset + row;
        let place = |at| number(self.ends, at) as usize;
        self.validity
            .has(at)
            .then(|| place(at)..place(at + 1))
            .filter(|_| row < self.len)
    }
}

fn number(bytes: &[u8], at: usize) -> i32 {
    let four = bytes[4 * at..].first_chunk();
    four.map_or(0, |four| i32::from_ne_bytes(*four))
}

/// Text or bytes: Arrow's `utf8` and `binary`.
#[derive(Debug, Clone, Copy)]
pub struct Texts<'a> {
    spans: Spans<'a>,
    values: &'a [u8],
}

impl<'a> Texts<'a> {
    /// `spans` must have been created with the length of `values`.
    pub fn new(spans: Spans<'a>, values: &'a [u8]) -> Self {
        Self { spans, values }
    }

    /// Returns the bytes; None for null.
    pub(super) fn bytes(&self, row: usize) -> Option<&'a [u8]> {
        Some(&self.values[self.spans.get(row)?])
    }
}

/// 32-bit numbers.
#[derive(Debug, Clone, Copy)]
pub struct Numbers<'a> {
    validity: Validity<'a>,
    values: &'a [u8],
    offset: usize,
}

impl<'a> Numbers<'a> {
    /// offset: number of values before the first one.
    pub fn new(
        validity: Option<&'a [u8]>,
        values: &'a [u8],
        (offset, len): (usize, usize),
    ) -> Result<Self, BadColumn> {
        let end = offset + len;
        if values.len() < 4 * end {
            return Err(BadColumn("the numbers are too few"));
        }
        let validity = Validity::new(validity, end)?;
        Ok(Self {
            validity,
            values,
            offset,
        })
    }

    /// Returns 0 for null.
    pub(super) fn get(&self, row: usize) -> i32 {
        let at = self.offset + row;
        if self.validity.has(at) {
            number(self.values, at)
        } else {
            0
        }
    }
}

/// Lists of texts.
#[derive(Debug, Clone, Copy)]
pub struct Lists<'a> {
    /// Which of `items` belong to each row.
    pub spans: Spans<'a>,
    /// The texts of all lists.
    pub items: Texts<'a>,
}

impl<'a> Lists<'a> {
    pub(super) fn items(&self, row: usize) -> impl Iterator<Item = Option<&'a [u8]>> {
        let items = self.items;
        let range = self.spans.get(row).unwrap_or_default();
        range.map(move |at| items.bytes(at))
    }
}

/// Maps of texts to texts.
#[derive(Debug, Clone, Copy)]
pub struct Maps<'a> {
    /// Which of the pairs belong to each row.
    pub spans: Spans<'a>,
    /// The names of all pairs.
    pub names: Texts<'a>,
    /// The values of all pairs.
    pub values: Texts<'a>,
}

impl<'a> Maps<'a> {
    /// Returns the pairs of a row that have a value.
    pub(super) fn pairs(&self, row: usize) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let (names, values) = (self.names, self.values);
        let range = self.spans.get(row).unwrap_or_default();
        range.filter_map(move |at| Some((names.bytes(at)?, values.bytes(at)?)))
    }
}

/// The keys of messages.
#[derive(Debug, Clone, Copy)]
pub enum Keys<'a> {
    /// Separated by white space.
    Text(Texts<'a>),
    /// A list of keys.
    Lists(Lists<'a>),
}

/// The columns of some rows; every column except the body may be missing.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The number of rows.
    pub len: usize,
    /// Bodies of the messages.
    pub body: Texts<'a>,
    /// Topics of the messages; null means the write's topic.
    pub topic: Option<Texts<'a>>,
    /// Tags of the messages.
    pub tags: Option<Texts<'a>>,
    /// Keys of the messages.
    pub keys: Option<Keys<'a>>,
    /// Other properties of the messages.
    pub properties: Option<Maps<'a>>,
    /// Numbers for the application.
    pub flag: Option<Numbers<'a>>,
    /// Delay levels; 0 means no delay.
    pub delay_level: Option<Numbers<'a>>,
    /// Order keys: messages with the same key go to the same queue, in order.
    pub order_key: Option<Texts<'a>>,
}
