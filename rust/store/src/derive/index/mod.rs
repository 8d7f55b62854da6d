//! The index of keys.

pub(crate) mod file;
pub(crate) mod files;
pub(crate) mod geometry;
pub(crate) mod repair;
#[cfg(test)]
mod tests;
pub(crate) mod writer;
