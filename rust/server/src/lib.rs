//! Requests, and who answers them.
//!
//! A connection's task reads frames (`connection`), `dispatch` asks `route` who answers: a native
//! handler (`send`, `pull`, `offsets`, `ready`) as far as the published `tables` allow, else
//! Python through `handoff`. Held requests sleep in `hold`, `overload` refuses what waits for too
//! long, `parked` keeps what its client leaves no room for, `traffic` counts what is sent and
//! pulled. `turns` says who may take long and when, `slice` who gets a core first, `core` is what
//! they share, `limits` every bound, `server` starts and stops it all.

mod acl;
mod acl_needs;
#[cfg(test)]
mod acl_tests;
mod answers;
mod bitmaps;
mod broker_row;
mod budget;
mod cold;
mod connection;
mod core;
mod deadlines;
mod dispatch;
mod events;
mod gate;
mod group_row;
mod handoff;
mod handshakes;
mod heartbeat;
mod hold;
mod limits;
mod listener;
mod locks;
mod memory;
mod moved;
mod native;
mod offsets;
mod order;
mod overload;
mod parked;
mod peers;
mod pull;
mod pull_filter;
mod queue;
mod ready;
mod released;
mod route;
mod send;
mod send_properties;
mod send_reply;
#[allow(clippy::module_inception)]
mod server;
mod settings;
#[cfg(test)]
mod sizes_tests;
mod slice;
mod spare;
mod split;
mod stats;
mod supervise;
mod tables;
mod tls;
mod traffic;
mod transaction;
mod trial;
mod turns;
mod unfinished;

pub use acl::{Account, AclRules, AddressPattern, Denials};
pub use bitmaps::{FilterRow, Filters, GroupFilter};
pub use broker_row::{BrokerRow, StoredReplies};
pub use core::{Core, UnknownFamily};
pub use deadlines::FrameLimits;
pub use events::{Event, EventKind};
pub use group_row::GroupRow;
pub use handoff::{Job, JobHead};
pub use hold::Wish;
pub use limits::{CONNECTIONS_MAX, FRAME_BYTES_MAX};
pub use locks::{Granted, LockLimits, QueueName};
pub use peers::Peer;
pub use queue::Popped;
pub use server::Server;
pub use settings::{DataPlane, Kind, Settings, TlsSettings};
pub use tables::{Change, StaleVersion, Subscription, SubscriptionRow, TopicRow};
pub use tls::{Tls, TlsMode};
pub use traffic::Sums;
