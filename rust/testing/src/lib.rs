//! Shared by the tests of several rooms. No product code depends on this crate.

#![allow(clippy::unwrap_used, reason = "for tests: a failure ends the test")]

pub mod golden;
pub mod stores;
