//! Delayed messages: what is delivered, and when.

mod deliver;
mod whole_store;
