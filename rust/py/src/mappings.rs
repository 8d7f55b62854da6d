//! Reads values out of Python's mappings.

use std::time::Duration;

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyMapping;

/// Seconds from Python; a negative, infinite or huge number becomes the nearest allowed value.
pub(super) fn seconds(value: f64) -> Duration {
    const YEAR_SECONDS: f64 = 365.0 * 86_400.0;
    Duration::from_secs_f64(if value > 0.0 {
        value.min(YEAR_SECONDS)
    } else {
        0.0
    })
}

pub(super) fn bad(key: &str, value: impl std::fmt::Display, allowed: &str) -> PyErr {
    PyValueError::new_err(format!("{key} = {value}: {allowed}"))
}

/// The value of `key`; None if it is missing or None.
pub(super) fn optional<'py, T>(map: &Bound<'py, PyMapping>, key: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    match map.get_item(key) {
        Ok(value) if value.is_none() => Ok(None),
        Ok(value) => value.extract().map(Some),
        Err(error) if error.is_instance_of::<PyKeyError>(map.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn required<'py, T>(map: &Bound<'py, PyMapping>, key: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    optional(map, key)?.ok_or_else(|| PyValueError::new_err(format!("{key} is missing")))
}
