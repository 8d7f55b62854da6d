//! Finds the wanted messages among the records of a queue, before they become objects of another
//! language.

mod conditions;
mod json;
mod select;
mod wanted;

#[cfg(test)]
mod tests;

pub use conditions::Conditions;
pub use select::Selection;
pub use wanted::{ConditionError, Decompress, Wanted};
