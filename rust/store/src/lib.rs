//! The message store: the commit log and everything derived from it. Knows no sockets.

mod ack;
mod ahead_of_flush;
mod append;
#[cfg(test)]
mod append_golden_tests;
#[cfg(test)]
mod append_tests;
mod arrivals;
mod aside;
mod checkpoint;
#[cfg(test)]
mod checkpoint_tests;
mod clean;
mod clean_rules;
mod clean_run;
#[cfg(test)]
mod clean_stop_proptests;
#[cfg(test)]
mod clean_stop_tests;
#[cfg(test)]
mod clean_tests;
mod consume_queue;
mod consume_queue_ext;
#[cfg(test)]
mod consume_queue_tests;
mod consume_queues;
#[cfg(test)]
mod damage_rig;
mod delay;
mod delay_offsets;
#[cfg(test)]
mod delay_store_tests;
#[cfg(test)]
mod delay_tests;
pub mod derive;
#[cfg(test)]
mod derive_tests;
#[cfg(test)]
mod derived_damage_tests;
#[cfg(test)]
mod derived_golden_tests;
mod dispatch;
#[cfg(test)]
mod dispatch_tests;
#[cfg(test)]
mod durability_tests;
mod encode;
mod files;
mod flush;
mod flush_queues;
#[cfg(test)]
mod flush_tests;
mod follow;
#[cfg(test)]
mod full_disk_tests;
mod gate;
mod index;
mod index_file;
mod index_geometry;
#[cfg(test)]
mod index_geometry_tests;
mod index_name;
#[cfg(test)]
mod index_tests;
mod index_writer;
pub mod inspect;
mod latency;
mod layout;
mod light_queues;
mod lock;
mod log_facts;
mod log_files;
mod log_place;
mod lookup;
#[cfg(test)]
mod lookup_tests;
mod offset_moves;
mod offsets;
mod open;
mod open_files;
mod own_json;
#[cfg(test)]
mod panic_tests;
mod pending;
#[cfg(test)]
mod pending_memory_tests;
#[cfg(test)]
mod pending_tests;
mod periodic;
mod put;
mod queue_offsets;
mod rates;
mod read;
mod read_ahead;
#[cfg(test)]
mod read_damage_tests;
mod read_records;
mod read_sql;
#[cfg(test)]
mod read_tests;
mod recent;
pub mod recognise;
mod record_check;
mod recover;
mod redeliver;
mod runtime;
mod seal;
mod settings;
#[cfg(test)]
mod short_file_tests;
mod signal;
#[cfg(test)]
mod slow_queue_tests;
mod space;
mod sparse_files;
mod state;
mod state_json;
#[allow(clippy::module_inception)]
mod store;
#[cfg(test)]
mod store_rig;
#[cfg(test)]
mod test_rig;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, reason = "for tests")]
pub mod testing;
mod time_search;
#[cfg(test)]
mod trimmed_tests;
mod types;
mod upkeep;
mod walk;

pub use ack::after_replies;
pub use arrivals::Arrivals;
pub use aside::Aside;
pub use delay::DeliveryListener;
pub use read_sql::Marks;
pub use settings::{Cleaning, MultiDispatch, QueueExt, Settings};
pub use state::State;
pub use store::Store;
pub use types::{
    AckOutcome, Arrival, Cleaned, Delivered, GetRequest, GetResult, GetStatus, Put, PutRequest,
    PutResult, PutStatus, QueryResult, ReadMode, StoreError, TagFilter, Ticket, WouldBlock,
};
