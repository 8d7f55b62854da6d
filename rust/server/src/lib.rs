//! Requests, and who answers them.
//!
//! A connection's task reads frames (`connection`), `dispatch` asks `route` who answers: a native
//! handler (`send`, `pull`, `offsets`, `ready`) as far as the published `tables` allow, else
//! Python through `handoff`. Held requests sleep in `hold`, `overload` refuses what waits for too
//! long, `parked` keeps what its client leaves no room for, `traffic` counts what is sent and
//! pulled. `turns` says who may take long and when, `slice` who gets a core first, `core` is what
//! they share, `limits` every bound, `server` starts and stops it all.

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
#[cfg(test)]
mod sizes_tests;
mod stats;
mod supervise;
mod tables;
mod traffic;

pub use conn::deadlines::FrameLimits;
pub use conn::events::{Event, EventKind};
pub use conn::peers::Peer;
pub use conn::tls::{Tls, TlsMode};
pub use core::{Core, UnknownFamily};
pub use handoff::queue::Popped;
pub use handoff::{Job, JobHead};
pub use limits::{CONNECTIONS_MAX, FRAME_BYTES_MAX};
pub use requests::hold::Wish;
pub use requests::locks::{Granted, LockLimits, QueueName};
pub use server::Server;
pub use settings::{DataPlane, Kind, Settings, TlsSettings};
pub use tables::acl::{Account, AclRules, AddressPattern, Denials};
pub use tables::bitmaps::{FilterRow, Filters, GroupFilter};
pub use tables::broker_row::{BrokerRow, StoredReplies};
pub use tables::group_row::GroupRow;
pub use tables::{Change, StaleVersion, Subscription, SubscriptionRow, TopicRow};
pub use traffic::Sums;
