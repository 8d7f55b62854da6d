//! The message store: the commit log and everything derived from it. Knows no sockets.

mod clean;
mod delay;
pub mod derive;
mod directory;
mod entry_repair;
mod files;
mod filter;
pub mod inspect;
mod life;
mod listeners;
mod open;
mod positions;
mod read;
mod recover;
mod replicate;
mod running;
mod scan;
mod settings;
mod state;
mod stats;
#[allow(clippy::module_inception)]
mod store;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, reason = "for tests")]
pub mod testing;
#[cfg(test)]
mod tests;
mod threads;
mod types;
mod upkeep;
mod write;

pub use delay::deliver::DeliveryListener;
pub use derive::arrivals::Arrivals;
pub use filter::{BloomHint, MessageFilter};
pub use listeners::AlreadyRegistered;
pub use replicate::replica::Replica;
pub use settings::{Cleaning, MultiDispatch, QueueExt, Settings};
pub use state::transactions::{Ending, Transactions, number_of};
pub use store::Store;
pub use threads::bell::Hold;
pub use types::{
    AckOutcome, Arrival, Cleaned, Delivered, GetRequest, GetResult, GetStatus, Put, PutRequest,
    PutResult, PutStatus, QueryResult, ReadMode, Role, Settled, StoreError, Ticket, Watermark,
    WouldBlock,
};
pub use write::ack::SettledListener;
pub use write::replicas::SlaveWait;
