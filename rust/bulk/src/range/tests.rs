//! Tests of the range reader.

pub(super) mod model;
mod reader;
mod window;
