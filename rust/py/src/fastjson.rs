//! Python door of `format::fastjson`: reading its dialect, writing it from Python objects.

use pyo3::exceptions::{PyRecursionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBool, PyDict, PyFloat, PyInt, PyList, PySet, PyString, PyTuple};

use mq_format::fastjson::{MAX_DEPTH, to_strict, write_string};

/// Rewrites fastjson's text as strict JSON; ValueError for text that fastjson cannot read either.
#[pyfunction]
pub fn fastjson_to_strict(text: &str) -> PyResult<String> {
    to_strict(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Writes an object as fastjson does; `raw_key` is the class of keys written without quotes.
#[pyfunction]
pub fn fastjson_dumps(
    value: &Bound<'_, PyAny>,
    pretty: bool,
    raw_key: &Bound<'_, PyAny>,
) -> PyResult<String> {
    let mut writer = Writer {
        out: Vec::with_capacity(256),
        pretty,
        depth: 0,
        raw_key,
    };
    writer.value(value)?;
    String::from_utf8(writer.out).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// One run of the writer. Keys come out sorted: RocketMQ's beans are, and maps have no order.
struct Writer<'a, 'py> {
    out: Vec<u8>,
    pretty: bool,
    depth: usize,
    raw_key: &'a Bound<'py, PyAny>,
}

impl<'py> Writer<'_, 'py> {
    fn value(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        if self.depth > MAX_DEPTH {
            return Err(PyRecursionError::new_err(format!(
                "nested over {MAX_DEPTH} deep"
            )));
        }
        if value.is_none() {
            self.out.extend_from_slice(b"null");
        } else if let Ok(text) = value.cast::<PyString>() {
            write_string(&text.to_cow()?, &mut self.out);
        } else if let Ok(truth) = value.cast_exact::<PyBool>() {
            self.out
                .extend_from_slice(if truth.is_true() { b"true" } else { b"false" });
        } else if value.is_instance_of::<PyInt>() {
            self.integer(value)?;
        } else if let Ok(number) = value.cast::<PyFloat>() {
            let finite = number.value().is_finite();
            let text = if finite {
                number.repr()?.to_string()
            } else {
                "null".to_owned()
            };
            self.out.extend_from_slice(text.as_bytes());
        } else if let Ok(map) = value.cast::<PyDict>() {
            self.map(map)?;
        } else if let Ok(list) = value.cast::<PyList>() {
            self.items(list.iter(), self.pretty && !list.is_empty())?;
        } else if let Ok(array) = value.cast::<PyTuple>() {
            self.items(array.iter(), false)?;
        } else if let Ok(set) = value.cast::<PySet>() {
            self.items(set.iter(), false)?;
        } else {
            let kind = value.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "a {kind} cannot be written as JSON"
            )));
        }
        Ok(())
    }

    /// An `int` or a subclass. The text of an enum would be its name, so its number is read.
    fn integer(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        let text = match value.extract::<i64>() {
            Ok(number) => number.to_string(),
            Err(_) => value.call_method0("__int__")?.str()?.to_string(),
        };
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// Pretty text has one line per element of a list, but not of Java's arrays and sets.
    fn items(
        &mut self,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
        lines: bool,
    ) -> PyResult<()> {
        self.out.push(b'[');
        self.depth += 1;
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            if lines {
                self.new_line();
            }
            self.value(&item)?;
        }
        self.depth -= 1;
        if lines {
            self.new_line();
        }
        self.out.push(b']');
        Ok(())
    }

    /// Null members are left out, as fastjson does.
    fn map(&mut self, map: &Bound<'py, PyDict>) -> PyResult<()> {
        self.out.push(b'{');
        self.depth += 1;
        let mut written = false;
        for key in sorted_keys(map)? {
            let Some(value) = map.get_item(&key)?.filter(|value| !value.is_none()) else {
                continue;
            };
            if written {
                self.out.push(b',');
            }
            written = true;
            self.key(&key)?;
            self.out.push(b':');
            self.value(&value)?;
        }
        self.depth -= 1;
        if self.pretty && written {
            self.new_line();
        }
        self.out.push(b'}');
        Ok(())
    }

    /// Text keys start a line in pretty text, others do not. Numbers are bare in pretty text
    /// (RocketMQ's files) and quoted on the wire, which every client reads.
    fn key(&mut self, key: &Bound<'py, PyAny>) -> PyResult<()> {
        if key.is_instance(self.raw_key)? {
            let text = key.cast::<PyString>()?.to_cow()?;
            self.out.extend_from_slice(text.as_bytes());
        } else if let Ok(text) = key.cast::<PyString>() {
            if self.pretty {
                self.new_line();
            }
            write_string(&text.to_cow()?, &mut self.out);
        } else if key.is_instance_of::<PyInt>() {
            let quote: &[u8] = if self.pretty { b"" } else { b"\"" };
            self.out.extend_from_slice(quote);
            self.integer(key)?;
            self.out.extend_from_slice(quote);
        } else {
            let kind = key.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "a {kind} cannot be a key in JSON"
            )));
        }
        Ok(())
    }

    fn new_line(&mut self) {
        self.out.push(b'\n');
        self.out.resize(self.out.len() + self.depth, b'\t');
    }
}

/// The keys in Python's order; TypeError if they cannot be compared (text beside numbers).
fn sorted_keys<'py>(map: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyList>> {
    let keys = map.keys();
    keys.sort()?;
    Ok(keys)
}
