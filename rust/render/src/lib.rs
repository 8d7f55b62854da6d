//! Records of a commit log as Arrow columns and as JSON lines. Pure: bytes in, buffers out.

mod columns;
mod fields;
mod hosts;
mod json;
mod pairs;
mod shapes;
mod sink;
mod text;

pub use self::columns::{
    Buffers, Choice, Collected, ColumnError, Columns, Feed, TextBuffers, column_layouts,
};
pub use self::fields::Fields;
pub use self::json::{BodyText, Decompress, Lines, json_lines};
pub use self::sink::Sink;
