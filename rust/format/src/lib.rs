//! Formats on the wire and on disk: pure functions over bytes, without I/O or clocks.

pub mod bloom;
pub mod bytes;
pub mod codes;
pub mod consume_queue;
pub mod consume_queue_ext;
pub mod delay_levels;
pub mod fastjson;
pub mod filter;
pub mod index;
pub mod inflate;
pub mod message;
pub mod message_id;
pub mod multi_dispatch;
pub mod properties;
pub mod registration;
pub mod remoting;
pub mod reply_records;
pub mod signature;
