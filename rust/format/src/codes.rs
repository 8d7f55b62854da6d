//! RocketMQ's codes by name, as `RequestCode` and `ResponseCode` spell them: those that Rust knows.

/// A message, its header spelt out.
pub const SEND_MESSAGE: i32 = 10;
/// Messages of a queue, from an offset on.
pub const PULL_MESSAGE: i32 = 11;
/// Messages by key.
pub const QUERY_MESSAGE: i32 = 12;
/// What a consumer is doing, which the broker asks it.
pub const GET_CONSUMER_RUNNING_INFO: i32 = 307;
/// A message that one consumer is to handle now.
pub const CONSUME_MESSAGE_DIRECTLY: i32 = 309;
/// Entries of a consume queue.
pub const QUERY_CONSUME_QUEUE: i32 = 321;
/// A reply message for the client that asked.
pub const SEND_REPLY_MESSAGE: i32 = 324;
/// The same with short names.
pub const SEND_REPLY_MESSAGE_V2: i32 = 325;
/// A group's offset in a queue.
pub const QUERY_CONSUMER_OFFSET: i32 = 14;
/// Commits a group's offset.
pub const UPDATE_CONSUMER_OFFSET: i32 = 15;
/// The end of a queue.
pub const GET_MAX_OFFSET: i32 = 30;
/// The start of a queue.
pub const GET_MIN_OFFSET: i32 = 31;
/// A message by its offset in the log.
pub const VIEW_MESSAGE_BY_ID: i32 = 33;
/// A client's groups and subscriptions.
pub const HEART_BEAT: i32 = 34;
/// A client leaves a group.
pub const UNREGISTER_CLIENT: i32 = 35;
/// A consumer wants a message again later.
pub const CONSUMER_SEND_MSG_BACK: i32 = 36;
/// Commits or rolls back a half message.
pub const END_TRANSACTION: i32 = 37;
/// The clients of a group.
pub const GET_CONSUMER_LIST_BY_GROUP: i32 = 38;
/// Locks queues for a client.
pub const LOCK_BATCH_MQ: i32 = 41;
/// Frees them.
pub const UNLOCK_BATCH_MQ: i32 = 42;
/// A key-value, of a NameServer.
pub const GET_KV_CONFIG: i32 = 101;
/// A topic's route, of a NameServer.
pub const GET_ROUTEINFO_BY_TOPIC: i32 = 105;
/// A message, its header in letters.
pub const SEND_MESSAGE_V2: i32 = 310;
/// Many messages of one topic.
pub const SEND_BATCH_MESSAGE: i32 = 320;

/// Done.
pub const SUCCESS: i32 = 0;
/// The server failed, or refuses for a reason without a code.
pub const SYSTEM_ERROR: i32 = 1;
/// Too much to do; ask again later.
pub const SYSTEM_BUSY: i32 = 2;
/// No processor for that code.
pub const REQUEST_CODE_NOT_SUPPORTED: i32 = 3;
/// Stored, but not on the disk in time.
pub const FLUSH_DISK_TIMEOUT: i32 = 10;
/// Stored, but there is no slave.
pub const SLAVE_NOT_AVAILABLE: i32 = 11;
/// Stored, but not by the slave in time.
pub const FLUSH_SLAVE_TIMEOUT: i32 = 12;
/// The message may not be stored.
pub const MESSAGE_ILLEGAL: i32 = 13;
/// The store takes no messages.
pub const SERVICE_NOT_AVAILABLE: i32 = 14;
/// The topic's permissions, or the client's, do not allow it.
pub const NO_PERMISSION: i32 = 16;
/// The broker does not have the topic.
pub const TOPIC_NOT_EXIST: i32 = 17;
/// Nothing new in that queue.
pub const PULL_NOT_FOUND: i32 = 19;
/// Nothing for that subscription; pull again at once.
pub const PULL_RETRY_IMMEDIATELY: i32 = 20;
/// There is no such offset.
pub const PULL_OFFSET_MOVED: i32 = 21;
/// The group has no offset there.
pub const QUERY_NOT_FOUND: i32 = 22;
/// The message lacks a buyer.
pub const NO_BUYER_ID: i32 = 204;
/// The message belongs to another unit.
pub const NOT_IN_CURRENT_UNIT: i32 = 205;
