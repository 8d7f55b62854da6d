//! Delivery of delayed messages.

mod deliver;
mod whole_store;
