//! Arguments of the store's Python door.

use std::net::SocketAddr;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use mq_base::clock::SystemClock;

/// The current time, milliseconds since the epoch.
pub(super) fn wall_ms() -> i64 {
    SystemClock::shared().wall_ms()
}

/// A host as "ip:port".
pub(super) fn address(text: &str) -> PyResult<SocketAddr> {
    text.parse().map_err(|_| {
        PyValueError::new_err(format!(
            "host {text:?} must be ip:port, e.g. 127.0.0.1:10911 or [::1]:10911"
        ))
    })
}
