//! Python door of `format::registration`: reading and writing a broker's topics in one go.

use std::borrow::Cow;
use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use mq_format::registration::{
    Registration, Row, Topic, UnpackError, read, read_unpacked, unpack, write_topics,
};

/// Topics with (reads, writes, perm, system flag), counter, timestamp, filter servers.
type Read<'py> = (Bound<'py, PyDict>, i64, i64, Vec<String>);

/// Reads a registration as brokers write it; None for any other form. ValueError for a compressed
/// one that is damaged or unpacks to too many bytes.
#[pyfunction]
#[pyo3(signature = (body, compressed = false))]
pub fn read_registration<'py>(
    py: Python<'py>,
    body: &Bound<'py, PyBytes>,
    compressed: bool,
) -> PyResult<Option<Read<'py>>> {
    let bytes = body.as_bytes();
    let stream;
    let found = if compressed {
        stream = py.detach(|| unpack(bytes)).map_err(refused)?;
        py.detach(|| read_unpacked(&stream))
    } else {
        py.detach(|| read(bytes))
    };
    let Some(found) = found else {
        return Ok(None);
    };
    let topics = rows_of(py, &found)?;
    let servers = found.filter_servers.into_iter().map(Cow::into_owned);
    let servers = servers.collect();
    Ok(Some((topics, found.counter, found.timestamp, servers)))
}

/// Unpacks a compressed registration; ValueError as `read_registration`.
#[pyfunction]
pub fn unpack_registration<'py>(
    py: Python<'py>,
    body: &Bound<'py, PyBytes>,
) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = body.as_bytes();
    let stream = py.detach(|| unpack(bytes)).map_err(refused)?;
    Ok(PyBytes::new(py, &stream))
}

fn refused(error: UnpackError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Equal rows share one tuple, because the settings of most topics are alike.
fn rows_of<'py>(py: Python<'py>, found: &Registration<'_>) -> PyResult<Bound<'py, PyDict>> {
    let mut shapes: HashMap<Row, Bound<'py, PyTuple>> = HashMap::new();
    let rows = PyDict::new(py);
    for (name, row) in &found.topics {
        let shape = match shapes.get(row) {
            Some(shape) => shape,
            None => {
                let shape = (row.reads, row.writes, row.perm, row.sys_flag).into_pyobject(py)?;
                shapes.entry(*row).or_insert(shape)
            }
        };
        rows.set_item(PyString::new(py, name), shape)?;
    }
    Ok(rows)
}

/// Writes a table of `TopicConfig` as fastjson does, its keys sorted.
#[pyfunction]
pub fn write_topic_table(py: Python<'_>, table: &Bound<'_, PyDict>) -> PyResult<String> {
    let mut topics = Vec::with_capacity(table.len());
    for (key, config) in table.iter() {
        topics.push((text(&key)?, topic_of(py, &config)?));
    }
    topics.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let bytes = write_topics(topics.into_iter());
    String::from_utf8(bytes).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn topic_of(py: Python<'_>, config: &Bound<'_, PyAny>) -> PyResult<Topic<'static>> {
    Ok(Topic {
        name: text(&config.getattr(intern!(py, "topic_name"))?)?,
        row: Row {
            reads: config.getattr(intern!(py, "read_queue_nums"))?.extract()?,
            writes: config.getattr(intern!(py, "write_queue_nums"))?.extract()?,
            perm: config.getattr(intern!(py, "perm"))?.extract()?,
            sys_flag: config.getattr(intern!(py, "topic_sys_flag"))?.extract()?,
        },
        filter_type: text(&config.getattr(intern!(py, "topic_filter_type"))?)?,
        order: config.getattr(intern!(py, "order"))?.is_truthy()?,
    })
}

fn text(value: &Bound<'_, PyAny>) -> PyResult<Cow<'static, str>> {
    Ok(Cow::Owned(value.extract()?))
}
