//! A column of text or bytes, in Arrow's layout.

use crate::sink::{Sink, copy};

/// The buffers of a text column.
#[derive(Debug)]
pub struct TextBuffers {
    /// One bit per value, 0 for null; None if no value is null.
    pub validity: Option<Sink>,
    /// 0 and the end of each value, int32.
    pub ends: Sink,
    /// The bytes of all values.
    pub values: Sink,
}

/// A text column under construction.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) values: Sink,
    ends: Sink,
    /// Empty until the first null.
    validity: Sink,
    pub(super) rows: usize,
}

impl Texts {
    pub(super) fn new() -> Self {
        Self {
            values: Sink::default(),
            ends: first_end(Sink::default()),
            validity: Sink::default(),
            rows: 0,
        }
    }

    /// Appends values and nulls.
    pub(super) fn add_all(&mut self, found: &[Option<&[u8]>]) {
        let has_nulls = found.contains(&None);
        if has_nulls || self.validity.len() > 0 {
            self.mark_all(found);
        }
        let total = found.iter().flatten().map(|value| value.len()).sum();
        let mut end = self.values.len() as i32;
        let mut rest = self.values.room(total);
        let (ends, _) = self.ends.room(4 * found.len()).as_chunks_mut();
        for (to, value) in ends.iter_mut().zip(found) {
            let value = value.unwrap_or_default();
            let (room, left) = std::mem::take(&mut rest).split_at_mut(value.len());
            copy(value, room);
            rest = left;
            end += value.len() as i32;
            *to = end.to_ne_bytes();
        }
        self.rows += found.len();
    }

    /// Sets the validity bits of the next rows, before they are added.
    fn mark_all(&mut self, found: &[Option<&[u8]>]) {
        if self.validity.len() == 0 {
            self.all_valid();
        }
        let before = self.rows;
        for value in found {
            self.mark(value.is_some());
            self.rows += 1;
        }
        self.rows = before;
    }

    /// Ends `rows` rows with one value per length; the bytes were written before.
    pub(super) fn end_lengths(
        &mut self,
        lengths: impl Iterator<Item = usize> + Clone,
        rows: usize,
    ) {
        let count = lengths.clone().count();
        let total: usize = lengths.clone().sum();
        let mut end = (self.values.len() - total * rows) as i32;
        let (ends, _) = self.ends.room(4 * count * rows).as_chunks_mut();
        for row in ends.chunks_exact_mut(count.max(1)) {
            for (to, length) in row.iter_mut().zip(lengths.clone()) {
                end += length as i32;
                *to = end.to_ne_bytes();
            }
        }
        self.rows += count * rows;
    }

    #[inline]
    pub(super) fn add(&mut self, value: &[u8]) {
        self.values.put(value);
        self.end_value();
    }

    /// Appends text; invalid UTF-8 becomes U+FFFD.
    pub(super) fn add_lossy(&mut self, value: &[u8]) {
        self.add(String::from_utf8_lossy(value).as_bytes());
    }

    /// Makes the bytes written since the last value a value.
    #[inline]
    pub(super) fn end_value(&mut self) {
        if self.validity.len() > 0 {
            self.mark(true);
        }
        self.end_row();
    }

    pub(super) fn add_null(&mut self) {
        if self.validity.len() == 0 {
            self.all_valid();
        }
        self.mark(false);
        self.end_row();
    }

    /// Marks all rows so far as not null.
    fn all_valid(&mut self) {
        self.validity.room(self.rows / 8 + 1).fill(0xFF);
        let unused = self.rows % 8;
        if let Some(last) = self.validity.written().last_mut() {
            *last = !(0xFF << unused);
        }
    }

    #[inline]
    fn end_row(&mut self) {
        // Fits: the caller limits a column to 2 GiB.
        self.ends.put_all(&(self.values.len() as i32).to_ne_bytes());
        self.rows += 1;
    }

    /// Sets the validity bit of the next row.
    #[inline]
    fn mark(&mut self, is_value: bool) {
        if self.validity.len() == self.rows / 8 {
            self.validity.push(0);
        }
        if let Some(last) = self.validity.written().last_mut() {
            *last |= u8::from(is_value) << (self.rows % 8);
        }
    }

    pub(super) fn take(&mut self) -> TextBuffers {
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

/// Appends the 0 with which the ends of a column begin.
pub(super) fn first_end(mut ends: Sink) -> Sink {
    ends.put_all(&0_i32.to_ne_bytes());
    ends
}
