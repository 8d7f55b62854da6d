//! Reads of messages.

mod damage;
mod lookup;
mod reader;
