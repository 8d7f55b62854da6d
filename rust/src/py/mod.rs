//! The Python module `mqstore._core`: the only place that names pyo3.

use pyo3::prelude::*;

/// The compiled core of mqstack.
#[pymodule(gil_used = false)]
mod _core {}
