//! The columns of a write, read from their buffers in Arrow's layout.

use std::ops::Range;

use thiserror::Error;

/// Buffers that do not hold what Arrow's layout says.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the buffers are not Arrow's: {0}")]
pub struct BadColumn(pub &'static str);

/// Which values of a column are null: one bit for each, set for a value.
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

/// Where each value begins and ends among the values of another buffer or column.
#[derive(Debug, Clone, Copy)]
pub struct Spans<'a> {
    validity: Validity<'a>,
    ends: &'a [u8],
    offset: usize,
    len: usize,
}

impl<'a> Spans<'a> {
    /// ends: 32-bit numbers, one more than values. offset: the values before the first one.
    /// values: the number of what they lead to.
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

    /// None for null.
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
    /// `spans` lead into `values`, for the length of which they were checked.
    pub fn new(spans: Spans<'a>, values: &'a [u8]) -> Self {
        Self { spans, values }
    }

    /// The bytes; None for null.
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
    /// offset: the values before the first one.
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

    /// 0 for null.
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
    /// Which of `items` belong to a row.
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
    /// Which of the pairs belong to a row.
    pub spans: Spans<'a>,
    /// The names of all pairs.
    pub names: Texts<'a>,
    /// The values of all pairs.
    pub values: Texts<'a>,
}

impl<'a> Maps<'a> {
    /// The pairs of a row that have a value.
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
    /// One by one.
    Lists(Lists<'a>),
}

/// The columns of some rows; all but the body may be missing.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The number of rows.
    pub len: usize,
    /// What the messages carry.
    pub body: Texts<'a>,
    /// Where they go; null is the write's topic.
    pub topic: Option<Texts<'a>>,
    /// Their tag.
    pub tags: Option<Texts<'a>>,
    /// Their keys.
    pub keys: Option<Keys<'a>>,
    /// Their other properties.
    pub properties: Option<Maps<'a>>,
    /// A number for the application.
    pub flag: Option<Numbers<'a>>,
    /// 0 is not delayed.
    pub delay_level: Option<Numbers<'a>>,
    /// Messages of the same key go to the same queue, in order.
    pub order_key: Option<Texts<'a>>,
}
