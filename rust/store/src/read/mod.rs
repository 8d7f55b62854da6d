//! Reading messages: of a queue, by offset, by key, by time.

pub(crate) mod ahead;
pub(crate) mod lookup;
pub(crate) mod reader;
pub(crate) mod records;
pub(crate) mod sql;
#[cfg(test)]
mod tests;
pub(crate) mod time_search;
