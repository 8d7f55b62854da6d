//! Requests, and the code that answers them.
//!
//! `conn` reads frames. `requests::dispatch` asks `route` which code answers: a native handler of
//! `requests`, as far as the published `tables` allow, or Python through `handoff`. A handler
//! returns an outcome, and `dispatch` decides the next step. `waiting` keeps the replies that wait
//! until their messages are durable. `fair` keeps well-behaved clients fast. `shared` holds the
//! parts that all of them use, `core` the waiting requests, `limits` every limit; `server` starts
//! and stops everything.
//!
//! No file imports another in a circle.

mod conn;
mod core;
mod fair;
mod handoff;
mod limits;
mod requests;
mod route;
#[allow(clippy::module_inception)]
mod server;
mod settings;
mod shared;
#[cfg(test)]
mod sizes_tests;
mod stats;
mod supervise;
mod tables;
mod traffic;
mod waiting;

pub use conn::client_replies::ClientReply;
pub use conn::events::{Event, EventKind};
pub use conn::peers::Peer;
pub use conn::tls::Tls;
pub use core::Core;
pub use handoff::job::Job;
pub use handoff::queue::Popped;
pub use handoff::request::JobHead;
pub use limits::{CONNECTIONS_MAX, FRAME_BYTES_MAX};
pub use requests::ask_client::NotAsked;
pub use requests::long_poll::PollKey;
pub use requests::queue_locks::{Granted, LockLimits, QueueName};
pub use server::Server;
pub use settings::{DataPlane, FrameLimits, Kind, Settings, TlsMode, TlsSettings};
pub use shared::{Shared, UnknownFamily};
pub use tables::GroupRow;
pub use tables::acl::{Account, AclRules, AddressPattern, Denials};
pub use tables::bitmaps::{FilterRow, Filters, GroupFilter};
pub use tables::broker_row::{BrokerRow, StoredReplies};
pub use tables::table::{Change, StaleVersion};
pub use tables::{Subscription, SubscriptionRow, TopicRow};
pub use traffic::Sums;
