//! The compiled core of mqstack.
//!
//! Rooms, and who may use whom: `bytes`, `clock` <- `format` and `log` <- `store` <- `server`
//! <- `py`; `net` <- `server`, `client` <- `py`. Never upward. Only `py` knows Python.

pub mod bytes;
pub mod client;
pub mod clock;
pub mod filter;
pub mod format;
pub mod log;
pub mod net;
#[cfg(feature = "python")]
mod py;
pub mod server;
pub mod services;
pub mod store;
