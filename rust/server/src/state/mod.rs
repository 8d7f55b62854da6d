//! What the server itself remembers of clients: the locks of their queues, and their heartbeats.

pub(crate) mod known_heartbeats;
pub(crate) mod queue_locks;
