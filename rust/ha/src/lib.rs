//! Replication between brokers, as RocketMQ 4.9's HA connection does it.
//!
//! `protocol` has both sides as state machines without sockets, threads or clocks. [`HaMaster`]
//! serves a store's log to slaves, and [`HaSlave`] copies a master's log into a store.

mod allow;
mod channel;
mod master;
mod meter;
pub mod protocol;
mod serving;
mod session;
mod slave;
mod slave_status;
#[cfg(test)]
mod tests;

pub use allow::{AllowError, Allowed};
pub use master::{HaMaster, MasterSettings, SlaveRow};
pub use slave::HaSlave;
pub use slave_status::{SlaveSettings, SlaveState, SlaveStatus};
