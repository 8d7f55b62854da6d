//! Column buffers in Arrow's layout.

use super::row::{ROWS_AT_ONCE, Row, Source, Text};
use super::texts::{TextBuffers, Texts, first_end};
use crate::hosts::{write_host, write_offset_id};
use crate::pairs::{self, Pair};
use crate::shapes::Shapes;
use crate::sink::{Kept, Sink, copy};
use mq_format::properties;

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

/// The buffers of a column.
#[derive(Debug)]
pub enum Buffers {
    /// Numbers without nulls.
    Numbers(Sink),
    /// Text or bytes.
    Texts(TextBuffers),
    /// Pairs of text: end of each row, number of pairs, names, values.
    Map(Sink, usize, TextBuffers, TextBuffers),
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

    /// Bytes of values so far.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Numbers { values, .. } => values.len(),
            Self::Texts { texts, .. } => texts.values.len(),
            Self::Map { names, values, .. } => names.values.len() + values.values.len(),
        }
    }

    /// Appends at most `ROWS_AT_ONCE` rows; `shapes` holds the pairs of their properties.
    pub(super) fn add(&mut self, rows: &[Row<'_>], shapes: &Shapes) {
        match self {
            Self::Numbers { source, values } => add_numbers(*source, rows, values),
            Self::Texts { text, texts, kept } => add_texts(*text, rows, shapes, texts, kept),
            Self::Map {
                ends,
                names,
                values,
            } => {
                let is_like = |left: &Row<'_>, right: &Row<'_>| left.span == right.span;
                for run in rows.chunk_by(is_like) {
                    let (Some(first), before) = (run.first(), names.rows) else {
                        continue;
                    };
                    let pairs = shapes.pairs(first.span);
                    if first.is_ascii && !pairs::has_twin(first.record.properties, pairs) {
                        add_maps(run, pairs, names, values);
                        put_steps(ends, before, pairs.len(), run.len());
                    } else {
                        run.iter().for_each(|row| add_map(row, ends, names, values));
                    }
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

/// The value of each row; None for null.
type Found<'r> = [Option<&'r [u8]>; ROWS_AT_ONCE];

fn add_texts(text: Text, rows: &[Row<'_>], shapes: &Shapes, texts: &mut Texts, kept: &mut Kept) {
    let mut found: Found<'_> = [None; ROWS_AT_ONCE];
    let found = &mut found[..rows.len()];
    let each = found.iter_mut().zip(rows);
    match text {
        Text::Topic => each.for_each(|(to, row)| *to = Some(row.record.topic.as_bytes())),
        Text::Body => each.for_each(|(to, row)| *to = Some(row.body())),
        Text::RawProperties => {
            for row in rows {
                texts.add_lossy(row.record.properties);
            }
            return;
        }
        Text::Property(name) => {
            find(name, rows, shapes, found);
            if rows.iter().any(|row| !row.is_ascii) {
                return add_each(found, rows, texts);
            }
        }
        Text::MessageId => {
            find(properties::UNIQ_KEY, rows, shapes, found);
            if found.contains(&None) || rows.iter().any(|row| !row.is_ascii) {
                return add_ids(found, rows, texts);
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
            return;
        }
    }
    texts.add_all(found);
}

/// Finds the value of a property in each row. Rows with equal spans have it at the same position.
fn find<'r>(name: &str, rows: &'r [Row<'_>], shapes: &Shapes, found: &mut [Option<&'r [u8]>]) {
    let mut seen = None;
    let mut pair = None;
    for (to, row) in found.iter_mut().zip(rows) {
        let text = row.record.properties;
        if seen != Some(row.span) {
            seen = Some(row.span);
            pair = pairs::last(text, shapes.pairs(row.span), name);
        }
        *to = pair.map(|pair| pair.value(text));
    }
}

/// Appends values that may be invalid UTF-8.
fn add_each(found: &[Option<&[u8]>], rows: &[Row<'_>], texts: &mut Texts) {
    for (value, row) in found.iter().zip(rows) {
        match value {
            Some(value) if row.is_ascii => texts.add(value),
            Some(value) => texts.add_lossy(value),
            None => texts.add_null(),
        }
    }
}

/// Appends the unique id of each row, or its offset message id if it has none.
fn add_ids(found: &[Option<&[u8]>], rows: &[Row<'_>], texts: &mut Texts) {
    for (value, row) in found.iter().zip(rows) {
        match value {
            Some(value) => texts.add_lossy(value),
            None => {
                write_offset_id(&row.record, &mut texts.values);
                texts.end_value();
            }
        }
    }
}

/// Appends the properties of rows with one span: names and all lengths are the same.
fn add_maps(rows: &[Row<'_>], pairs: &[Pair], names: &mut Texts, values: &mut Texts) {
    let Some(first) = rows.first() else {
        return;
    };
    let mut all_names = Sink::default();
    for pair in pairs {
        all_names.put(pair.name(first.record.properties));
    }
    let name_bytes = all_names.as_bytes().len();
    let room = names.values.room(name_bytes * rows.len());
    let value_bytes: usize = pairs.iter().map(|pair| pair.value_place().len()).sum();
    let mut rest = values.values.room(value_bytes * rows.len());
    for (at, row) in rows.iter().enumerate() {
        copy(
            all_names.as_bytes(),
            &mut room[at * name_bytes..(at + 1) * name_bytes],
        );
        for pair in pairs {
            let value = pair.value(row.record.properties);
            let (to, left) = std::mem::take(&mut rest).split_at_mut(value.len());
            copy(value, to);
            rest = left;
        }
    }
    let name_lengths = pairs
        .iter()
        .map(|pair| pair.name(first.record.properties).len());
    names.end_lengths(name_lengths, rows.len());
    values.end_lengths(
        pairs.iter().map(|pair| pair.value_place().len()),
        rows.len(),
    );
}

/// Appends all properties of a row. Names must be unique because Spark's maps require it.
fn add_map(row: &Row<'_>, ends: &mut Sink, names: &mut Texts, values: &mut Texts) {
    for (name, value) in pairs::distinct(row.record.properties) {
        names.add(name.as_bytes());
        values.add(value.as_bytes());
    }
    ends.put_all(&(names.rows as i32).to_ne_bytes());
}

/// Appends `start + step`, `start + 2 * step` and so on.
fn put_steps(ends: &mut Sink, start: usize, step: usize, count: usize) {
    let mut end = start as i32;
    for to in ends.room(4 * count).as_chunks_mut().0 {
        end += step as i32;
        *to = end.to_ne_bytes();
    }
}
