//! Requests, and the code that answers them.
//!
//! `conn` reads frames, and `dispatch` takes each to its answer: from native code, as far as the
//! published `tables` allow, or from Python through `handoff`. A native request in `requests`
//! decodes the frame, calls one of `operations`, which know no protocol, and encodes the reply.
//! `waiting` keeps what must wait. `fair` keeps well-behaved clients fast. `core` has the parts
//! that all of them use, `limits` every limit; `server` starts and stops everything.
//!
//! Folders have an order, and each imports only those below it; no file imports another in a
//! circle. `tests/test_tidy.py` holds both.

mod alarm;
mod bounded_queue;
mod clients;
mod conn;
mod core;
mod dispatch;
mod fair;
mod handoff;
mod handoff_bytes;
mod limits;
mod operations;
mod requests;
mod route;
#[allow(clippy::module_inception)]
mod server;
mod settings;
#[cfg(test)]
mod sizes_tests;
mod state;
mod stats;
mod supervise;
mod tables;
mod waiting;

pub use bounded_queue::Popped;
pub use clients::calls::{ClientReply, NotAsked};
pub use clients::events::{Event, EventKind};
pub use clients::peers::Peer;
pub use conn::admission::Admission;
pub use conn::tls::Tls;
pub use core::Core;
pub use dispatch::job::Job;
pub use handoff::request::JobHead;
pub use limits::{CONNECTIONS_MAX, FRAME_BYTES_MAX};
pub use operations::server_state::ServerState;
pub use route::UnknownFamily;
pub use server::Server;
pub use settings::{DataPlane, FrameLimits, Kind, Settings, TlsMode, TlsSettings};
pub use state::queue_locks::{Granted, LockLimits, QueueName};
pub use stats::traffic::Sums;
pub use tables::GroupRow;
pub use tables::acl::{Account, AclRules, AddressPattern, Denials};
pub use tables::bitmaps::{FilterRow, Filters, GroupFilter};
pub use tables::broker_row::{BrokerRow, StoredReplies};
pub use tables::table::{Change, StaleVersion};
pub use tables::{Subscription, SubscriptionRow, TopicRow};
pub use waiting::long_polls::PollKey;
