//! Tests of the range reader.

mod model;
mod reader;
mod window;
