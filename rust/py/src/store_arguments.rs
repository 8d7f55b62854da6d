//! Arguments of the store's Python door.

use std::net::SocketAddr;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::mappings::bad;
use mq_base::clock::SystemClock;
use mq_store::Role;

/// The roles by their names in Python.
const ROLES: [(&str, Role); 3] = [
    ("master", Role::Master),
    ("slave", Role::Slave),
    ("read_only", Role::ReadOnly),
];

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

/// The role of this name.
pub(super) fn named_role(name: &str) -> PyResult<Role> {
    let found = ROLES.iter().find(|(other, _)| *other == name);
    let found = found.map(|(_, role)| *role);
    found.ok_or_else(|| bad("role", name, "master, slave or read_only"))
}

/// The name of a role.
pub(super) fn role_name(role: Role) -> &'static str {
    let found = ROLES.iter().find(|(_, other)| *other == role);
    found.map_or("", |(name, _)| name)
}
