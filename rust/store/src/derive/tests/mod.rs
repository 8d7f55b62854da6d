//! What dispatch makes of the log.

mod at_once;
mod damage;
mod dispatch;
mod golden;
