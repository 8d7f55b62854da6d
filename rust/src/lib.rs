//! The compiled core of mqstack.
//!
//! Rooms, and who may use whom: `bytes`, `error`, `clock` <- `format` and `log` <- `store` <-
//! `server` <- `py`; `net` <- `server`, `client` <- `py`. Never upward. Only `py` knows Python.

#[cfg(feature = "python")]
mod py;
