//! Time, and threads that must go on: what every room that does something needs. Formats and
//! sockets do without.

pub mod clock;
pub mod services;
