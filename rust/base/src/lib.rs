//! Clocks, and threads that must go on. The rooms for formats and sockets need neither.

pub mod clock;
pub mod services;
