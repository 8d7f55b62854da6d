//! The Python module `mqstore._core`: the only place that names pyo3.

mod client;
mod errors;
mod fastjson;
mod offline;
mod server;
mod store;

use pyo3::prelude::*;

/// The compiled core of mqstack.
#[pymodule(gil_used = false)]
mod _core {}
