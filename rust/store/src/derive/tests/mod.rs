//! Queues, extensions and index derived from the log.

mod at_once;
mod dispatch;
mod golden;
