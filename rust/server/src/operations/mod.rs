//! What the server does, whatever the protocol: an operation knows no frame and no connection. Its
//! arguments are decoded and its result is encoded by `requests`.

mod offset_moved;
pub(crate) mod offsets;
pub(crate) mod pull;
mod pull_filter;
pub(crate) mod send;
mod send_properties;
pub(crate) mod server_state;
pub(crate) mod transactions;
