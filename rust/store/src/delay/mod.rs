//! Delayed messages, which are stored again in their real topics when they are due.

pub(crate) mod deliver;
pub(crate) mod order;
pub(crate) mod progress;
pub(crate) mod redeliver;
#[cfg(test)]
mod tests;
