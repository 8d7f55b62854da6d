//! Tests of the range reader.

mod model;
mod window;
