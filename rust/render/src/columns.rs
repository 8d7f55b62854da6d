//! Converts records to column buffers in Arrow's layout, as pandas and Spark read them. Python does
//! no work per row.

mod choice;
mod feed;
mod fill;
mod row;
mod table;
mod texts;

pub use self::choice::Choice;
pub use self::feed::{ColumnError, Feed};
pub use self::fill::Buffers;
pub use self::row::column_layouts;
pub use self::table::{Collected, Columns};
pub use self::texts::TextBuffers;
