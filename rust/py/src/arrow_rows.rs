//! Reads the columns of a write from the buffers of Python's Arrow arrays, without a copy.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use mq_bulk::write::{BadColumn, Keys, Lists, Maps, Numbers, Rows, Spans, Texts};

/// A buffer of an Arrow array, which nothing changes.
struct Buffer(PyUntypedBuffer);

impl<'py> FromPyObject<'_, 'py> for Buffer {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(&given)?;
        if !buffer.is_c_contiguous() {
            return Err(PyValueError::new_err("the buffer has gaps"));
        }
        Ok(Self(buffer))
    }
}

impl Buffer {
    fn bytes(&self) -> &[u8] {
        let length = self.0.len_bytes();
        if length == 0 {
            return &[]; // an empty buffer may have no address
        }
        // SAFETY: the view holds a reference to the memory for as long as it lives, the memory
        // has this length without gaps, and Arrow's buffers are immutable.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), length) }
    }
}

fn bits(validity: Option<&Buffer>) -> Option<&[u8]> {
    validity.map(Buffer::bytes)
}

/// Values before the first one, values, and their buffers.
#[derive(FromPyObject)]
struct TextColumn(usize, usize, Option<Buffer>, Buffer, Buffer);

impl TextColumn {
    fn texts(&self) -> Result<Texts<'_>, BadColumn> {
        let Self(offset, len, validity, ends, values) = self;
        let (validity, values) = (bits(validity.as_ref()), values.bytes());
        let spans = Spans::new(validity, ends.bytes(), (*offset, *len), values.len())?;
        Ok(Texts::new(spans, values))
    }
}

#[derive(FromPyObject)]
struct NumberColumn(usize, usize, Option<Buffer>, Buffer);

impl NumberColumn {
    fn numbers(&self) -> Result<Numbers<'_>, BadColumn> {
        let Self(offset, len, validity, values) = self;
        Numbers::new(bits(validity.as_ref()), values.bytes(), (*offset, *len))
    }
}

#[derive(FromPyObject)]
struct ListColumn(usize, usize, Option<Buffer>, Buffer, TextColumn);

impl ListColumn {
    fn lists(&self) -> Result<Lists<'_>, BadColumn> {
        let Self(offset, len, validity, ends, items) = self;
        let validity = bits(validity.as_ref());
        Ok(Lists {
            spans: Spans::new(validity, ends.bytes(), (*offset, *len), items.1)?,
            items: items.texts()?,
        })
    }
}

#[derive(FromPyObject)]
struct MapColumn(usize, usize, Option<Buffer>, Buffer, TextColumn, TextColumn);

impl MapColumn {
    fn maps(&self) -> Result<Maps<'_>, BadColumn> {
        let Self(offset, len, validity, ends, names, values) = self;
        let (validity, pairs) = (bits(validity.as_ref()), names.1.min(values.1));
        Ok(Maps {
            spans: Spans::new(validity, ends.bytes(), (*offset, *len), pairs)?,
            names: names.texts()?,
            values: values.texts()?,
        })
    }
}

#[derive(FromPyObject)]
enum KeysColumn {
    Lists(ListColumn),
    Text(TextColumn),
}

impl KeysColumn {
    fn keys(&self) -> Result<Keys<'_>, BadColumn> {
        match self {
            Self::Text(keys) => keys.texts().map(Keys::Text),
            Self::Lists(keys) => keys.lists().map(Keys::Lists),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Text(keys) => keys.1,
            Self::Lists(keys) => keys.1,
        }
    }
}

/// The columns of an Arrow record batch.
pub(super) struct ArrowRows {
    len: usize,
    body: TextColumn,
    topic: Option<TextColumn>,
    tags: Option<TextColumn>,
    keys: Option<KeysColumn>,
    properties: Option<MapColumn>,
    flag: Option<NumberColumn>,
    delay_level: Option<NumberColumn>,
    order_key: Option<TextColumn>,
}

impl ArrowRows {
    /// len: the number of rows. columns: by name; the body must be there.
    pub fn read(len: usize, columns: &Bound<'_, PyDict>) -> PyResult<Self> {
        let body = column(columns, "body")?;
        Ok(Self {
            len,
            body: body.ok_or_else(|| PyValueError::new_err("there is no column body"))?,
            topic: column(columns, "topic")?,
            tags: column(columns, "tags")?,
            keys: column(columns, "keys")?,
            properties: column(columns, "properties")?,
            flag: column(columns, "flag")?,
            delay_level: column(columns, "delay_level")?,
            order_key: column(columns, "order_key")?,
        })
    }

    /// The rows, once the buffers are known to hold them.
    pub fn rows(&self) -> PyResult<Rows<'_>> {
        let wrong = |error: BadColumn| PyValueError::new_err(error.to_string());
        self.checked().map_err(wrong)
    }

    fn checked(&self) -> Result<Rows<'_>, BadColumn> {
        if self.lengths().any(|len| len != self.len) {
            return Err(BadColumn("the columns have different lengths"));
        }
        Ok(Rows {
            len: self.len,
            body: self.body.texts()?,
            topic: of(&self.topic, TextColumn::texts)?,
            tags: of(&self.tags, TextColumn::texts)?,
            keys: of(&self.keys, KeysColumn::keys)?,
            properties: of(&self.properties, MapColumn::maps)?,
            flag: of(&self.flag, NumberColumn::numbers)?,
            delay_level: of(&self.delay_level, NumberColumn::numbers)?,
            order_key: of(&self.order_key, TextColumn::texts)?,
        })
    }

    fn lengths(&self) -> impl Iterator<Item = usize> {
        let texts = [&self.topic, &self.tags, &self.order_key];
        let texts = texts.map(|column| column.as_ref().map(|column| column.1));
        let numbers = [&self.flag, &self.delay_level];
        let numbers = numbers.map(|column| column.as_ref().map(|column| column.1));
        let keys = self.keys.as_ref().map(KeysColumn::len);
        let maps = self.properties.as_ref().map(|maps| maps.1);
        let others = [Some(self.body.1), keys, maps];
        texts.into_iter().chain(numbers).chain(others).flatten()
    }
}

fn of<'a, C, T>(
    column: &'a Option<C>,
    read: impl FnOnce(&'a C) -> Result<T, BadColumn>,
) -> Result<Option<T>, BadColumn> {
    column.as_ref().map(read).transpose()
}

fn column<'py, T>(columns: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    let given = columns.get_item(name)?;
    given.map(|given| given.extract()).transpose()
}
