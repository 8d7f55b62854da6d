//! The memory of columns, in Arrow's layout.

use super::{Row, Source, Text};
use crate::format::properties;
use crate::store::scan::hosts::{write_host, write_offset_id};
use crate::store::scan::pairs::{self, Pair};
use crate::store::scan::sink::{Kept, Sink};

/// A column that is being filled.
#[derive(Debug)]
pub(super) enum Fill {
    Numbers {
        source: Source,
        values: Sink,
    },
    Texts {
        text: Text,
        texts: Texts,
        kept: Kept,
    },
    Map {
        ends: Sink,
        names: Texts,
        values: Texts,
    },
}

/// A column's memory.
#[derive(Debug)]
pub enum Buffers {
    /// Numbers, none of which is null.
    Numbers(Sink),
    /// Text or bytes.
    Texts(TextBuffers),
    /// Pairs of text: where each row's end, how many they are, names, values.
    Map(Sink, usize, TextBuffers, TextBuffers),
}

/// Values of any length.
#[derive(Debug)]
pub struct TextBuffers {
    /// A bit for each value that is not null; None if none is.
    pub validity: Option<Sink>,
    /// 0, and where each ends, int32.
    pub ends: Sink,
    /// Their bytes.
    pub values: Sink,
}

impl Fill {
    pub(super) fn new(source: Source) -> Self {
        match source {
            Source::Text(text) => Self::Texts {
                text,
                texts: Texts::new(),
                kept: Kept::default(),
            },
            Source::Map => Self::Map {
                ends: first_end(Sink::default()),
                names: Texts::new(),
                values: Texts::new(),
            },
            Source::Int(_) | Source::Long(_) | Source::Time(_) => Self::Numbers {
                source,
                values: Sink::default(),
            },
        }
    }

    /// Bytes of values.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Numbers { values, .. } => values.len(),
            Self::Texts { texts, .. } => texts.values.len(),
            Self::Map { names, values, .. } => names.values.len() + values.values.len(),
        }
    }

    /// Appends rows; `pairs` are their properties.
    pub(super) fn add(&mut self, rows: &[Row<'_>], pairs: &[Pair]) {
        match self {
            Self::Numbers { source, values } => add_numbers(*source, rows, values),
            Self::Texts { text, texts, kept } => add_texts(*text, rows, pairs, texts, kept),
            Self::Map {
                ends,
                names,
                values,
            } => {
                for row in rows {
                    add_map(row, row.pairs(pairs), names, values);
                    ends.put_all(&(names.rows as i32).to_ne_bytes());
                }
            }
        }
    }

    pub(super) fn take(&mut self) -> Buffers {
        match self {
            Self::Numbers { values, .. } => Buffers::Numbers(values.take()),
            Self::Texts { texts, .. } => Buffers::Texts(texts.take()),
            Self::Map {
                ends,
                names,
                values,
            } => {
                let taken = ends.take();
                *ends = first_end(std::mem::take(ends));
                Buffers::Map(taken, names.rows, names.take(), values.take())
            }
        }
    }
}

fn add_numbers(source: Source, rows: &[Row<'_>], values: &mut Sink) {
    const LIMIT: i64 = i64::MAX / 1000;
    let longs = |number: &dyn Fn(&Row<'_>) -> i64, values: &mut Sink| {
        let (room, _) = values.room(8 * rows.len()).as_chunks_mut::<8>();
        for (to, row) in room.iter_mut().zip(rows) {
            *to = number(row).to_ne_bytes();
        }
    };
    match source {
        Source::Int(number) => {
            let (room, _) = values.room(4 * rows.len()).as_chunks_mut::<4>();
            for (to, row) in room.iter_mut().zip(rows) {
                *to = number(row).to_ne_bytes();
            }
        }
        Source::Long(number) => longs(&number, values),
        Source::Time(number) => longs(&|row| number(row).clamp(-LIMIT, LIMIT) * 1000, values),
        Source::Text(_) | Source::Map => {}
    }
}

fn add_texts(text: Text, rows: &[Row<'_>], pairs: &[Pair], texts: &mut Texts, kept: &mut Kept) {
    match text {
        Text::Topic => rows
            .iter()
            .for_each(|row| texts.add(row.record.topic.as_bytes())),
        Text::Body => rows.iter().for_each(|row| texts.add(row.body())),
        Text::RawProperties => rows
            .iter()
            .for_each(|row| texts.add_lossy(row.record.properties, row.is_ascii)),
        Text::Property(name) => {
            for row in rows {
                match pairs::last(row.record.properties, row.pairs(pairs), name) {
                    Some(value) => texts.add_lossy(value, row.is_ascii),
                    None => texts.add_null(),
                }
            }
        }
        Text::MessageId => {
            for row in rows {
                match pairs::last(
                    row.record.properties,
                    row.pairs(pairs),
                    properties::UNIQ_KEY,
                ) {
                    Some(value) => texts.add_lossy(value, row.is_ascii),
                    None => {
                        write_offset_id(&row.record, &mut texts.values);
                        texts.end_value();
                    }
                }
            }
        }
        Text::BornHost | Text::StoreHost => {
            for row in rows {
                let host = match text {
                    Text::BornHost => row.record.born_host(),
                    _ => row.record.store_host(),
                };
                kept.put(host, &mut texts.values, |out| write_host(host, out));
                texts.end_value();
            }
        }
    }
}

/// All properties of a row. No name may come twice: Spark's maps forbid it.
fn add_map(row: &Row<'_>, pairs: &[Pair], names: &mut Texts, values: &mut Texts) {
    let text = row.record.properties;
    if !row.is_ascii || pairs::has_twin(text, pairs) {
        for (name, value) in pairs::distinct(text) {
            names.add(name.as_bytes());
            values.add(value.as_bytes());
        }
        return;
    }
    for pair in pairs {
        names.add(pair.name(text));
        values.add(pair.value(text));
    }
}

/// Values of any length and nulls.
#[derive(Debug)]
pub(super) struct Texts {
    values: Sink,
    ends: Sink,
    /// Empty up to the first null.
    validity: Sink,
    rows: usize,
}

impl Texts {
    fn new() -> Self {
        Self {
            values: Sink::default(),
            ends: first_end(Sink::default()),
            validity: Sink::default(),
            rows: 0,
        }
    }

    #[inline]
    fn add(&mut self, value: &[u8]) {
        self.values.put(value);
        self.end_value();
    }

    /// Text whose bytes that are not UTF-8 become U+FFFD, as when a str is made of them.
    #[inline]
    fn add_lossy(&mut self, value: &[u8], is_ascii: bool) {
        if is_ascii {
            return self.add(value);
        }
        self.add(String::from_utf8_lossy(value).as_bytes());
    }

    /// What was written since the last value is one.
    #[inline]
    fn end_value(&mut self) {
        if self.validity.len() > 0 {
            self.mark(true);
        }
        self.end_row();
    }

    fn add_null(&mut self) {
        if self.validity.len() == 0 {
            self.validity.room(self.rows / 8 + 1).fill(0xFF);
            let unused = self.rows % 8;
            if let Some(last) = self.validity.written().last_mut() {
                *last = !(0xFF << unused);
            }
        }
        self.mark(false);
        self.end_row();
    }

    #[inline]
    fn end_row(&mut self) {
        // At most 2 GiB, which the caller sees to.
        self.ends.put_all(&(self.values.len() as i32).to_ne_bytes());
        self.rows += 1;
    }

    /// Says whether the next row is a value.
    #[inline]
    fn mark(&mut self, is_value: bool) {
        if self.validity.len() == self.rows / 8 {
            self.validity.push(0);
        }
        if let Some(last) = self.validity.written().last_mut() {
            *last |= u8::from(is_value) << (self.rows % 8);
        }
    }

    fn take(&mut self) -> TextBuffers {
        let ends = self.ends.take();
        self.ends = first_end(std::mem::take(&mut self.ends));
        let has_nulls = self.validity.len() > 0;
        self.rows = 0;
        TextBuffers {
            validity: has_nulls.then(|| self.validity.take()),
            ends,
            values: self.values.take(),
        }
    }
}

/// Ends begin with a 0.
fn first_end(mut ends: Sink) -> Sink {
    ends.put_all(&0_i32.to_ne_bytes());
    ends
}
