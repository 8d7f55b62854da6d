//! Deletes expired files.

pub(crate) mod cleaner;
pub(crate) mod rules;
pub(crate) mod run;
#[cfg(test)]
mod tests;
