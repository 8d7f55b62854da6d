//! Records to column buffers in Arrow's layout: what pandas and Spark read, with nothing done
//! per row in Python.

mod choice;
mod feed;
mod fill;
mod row;
mod table;
mod texts;
mod work;

pub use self::choice::Choice;
pub use self::feed::ColumnError;
pub use self::fill::Buffers;
pub use self::row::column_layouts;
pub use self::table::{Collected, Columns};
pub use self::texts::TextBuffers;
pub use self::work::{ColumnWork, ColumnsMade};
