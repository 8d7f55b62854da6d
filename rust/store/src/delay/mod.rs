//! Delayed messages: stored again in their topics when they are due.

pub(crate) mod deliver;
pub(crate) mod order;
pub(crate) mod progress;
pub(crate) mod redeliver;
#[cfg(test)]
mod tests;
