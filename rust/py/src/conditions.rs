//! Python door of the conditions of a search.

use std::collections::HashSet;

use mq_bulk::search::Wanted;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Compiled conditions of a search.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct Conditions {
    /// In a box, because the vectors of a text search must be aligned to 32 bytes. Python aligns
    /// its objects to 16.
    pub(super) compiled: Box<mq_bulk::search::Conditions>,
}

#[pymethods]
impl Conditions {
    #[new]
    #[pyo3(signature = (*, tags=None, key=None, body=None, json=None))]
    fn new(
        tags: Option<HashSet<String>>,
        key: Option<String>,
        body: Option<String>,
        json: Option<String>,
    ) -> PyResult<Self> {
        let wanted = Wanted {
            tags,
            key,
            body,
            json,
        };
        let compiled = mq_bulk::search::Conditions::compile(&wanted);
        let compiled = compiled.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self {
            compiled: Box::new(compiled),
        })
    }
}
