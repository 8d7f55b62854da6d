//! Clocks, and supervision of long-running threads. The crates for formats and sockets need
//! neither.

pub mod clock;
pub mod services;
