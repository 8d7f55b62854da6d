//! Requests that native code answers, one file each, and `dispatch`, which calls them.

pub(crate) mod ask_client;
pub(crate) mod cold;
pub(crate) mod context;
pub(crate) mod dispatch;
pub(crate) mod heartbeat;
pub(crate) mod known_heartbeats;
pub(crate) mod lock;
pub(crate) mod long_poll;
pub(crate) mod offset_moved;
pub(crate) mod offsets;
pub(crate) mod parking;
pub(crate) mod pending_reply;
pub(crate) mod published;
pub(crate) mod pull;
pub(crate) mod pull_filter;
pub(crate) mod queue_locks;
pub(crate) mod send;
pub(crate) mod send_properties;
pub(crate) mod send_reply;
pub(crate) mod transaction;
