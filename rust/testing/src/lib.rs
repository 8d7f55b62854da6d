//! What the tests of several rooms share. No product code depends on it.

#![allow(clippy::unwrap_used, reason = "for tests: what fails ends the test")]

pub mod golden;
pub mod stores;
