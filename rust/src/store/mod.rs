//! The message store: the commit log and everything derived from it. Knows no sockets.

mod checkpoint;
mod consume_queue;
mod consume_queues;
mod files;
mod lock;
mod offsets;
mod open_files;
mod recover;
pub mod scan;
mod state;
#[allow(clippy::module_inception)]
mod store;
mod types;

pub use store::Store;
pub use types::{
    AckOutcome, Arrival, GetRequest, GetResult, GetStatus, Put, PutRequest, PutResult, PutStatus,
    QueryResult, ReadMode, Settings, StoreError, TagFilter, Ticket, WouldBlock,
};
