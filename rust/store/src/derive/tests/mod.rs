//! What dispatch makes of the log.

mod at_once;
mod dispatch;
mod golden;
