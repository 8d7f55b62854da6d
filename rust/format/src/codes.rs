//! RocketMQ's codes that Rust knows, with their names in `RequestCode` and `ResponseCode`.

/// Sends a message; the header has long field names.
pub const SEND_MESSAGE: i32 = 10;
/// Pulls messages of a queue from an offset on.
pub const PULL_MESSAGE: i32 = 11;
/// Finds messages by key.
pub const QUERY_MESSAGE: i32 = 12;
/// Asks a consumer for its state.
pub const GET_CONSUMER_RUNNING_INFO: i32 = 307;
/// Makes one consumer handle a message now.
pub const CONSUME_MESSAGE_DIRECTLY: i32 = 309;
/// Lists entries of a consume queue.
pub const QUERY_CONSUME_QUEUE: i32 = 321;
/// Sends a reply message to the client that sent the request message.
pub const SEND_REPLY_MESSAGE: i32 = 324;
/// The same with short field names.
pub const SEND_REPLY_MESSAGE_V2: i32 = 325;
/// Queries a group's offset in a queue.
pub const QUERY_CONSUMER_OFFSET: i32 = 14;
/// Commits a group's offset.
pub const UPDATE_CONSUMER_OFFSET: i32 = 15;
/// Queries the end of a queue.
pub const GET_MAX_OFFSET: i32 = 30;
/// Queries the start of a queue.
pub const GET_MIN_OFFSET: i32 = 31;
/// Reads a message by its offset in the log.
pub const VIEW_MESSAGE_BY_ID: i32 = 33;
/// Reports a client's groups and subscriptions.
pub const HEART_BEAT: i32 = 34;
/// Removes a client from a group.
pub const UNREGISTER_CLIENT: i32 = 35;
/// Asks for a later redelivery of a message.
pub const CONSUMER_SEND_MSG_BACK: i32 = 36;
/// Commits or rolls back a half message.
pub const END_TRANSACTION: i32 = 37;
/// Lists the clients of a group.
pub const GET_CONSUMER_LIST_BY_GROUP: i32 = 38;
/// Locks queues for a client.
pub const LOCK_BATCH_MQ: i32 = 41;
/// Unlocks queues.
pub const UNLOCK_BATCH_MQ: i32 = 42;
/// Queries a key-value pair of a NameServer.
pub const GET_KV_CONFIG: i32 = 101;
/// Queries a topic's route in a NameServer.
pub const GET_ROUTEINFO_BY_TOPIC: i32 = 105;
/// Sends a message; the header has one-letter field names.
pub const SEND_MESSAGE_V2: i32 = 310;
/// Sends many messages of one topic.
pub const SEND_BATCH_MESSAGE: i32 = 320;

/// Success.
pub const SUCCESS: i32 = 0;
/// The server failed, or refuses for a reason without its own code.
pub const SYSTEM_ERROR: i32 = 1;
/// The server is overloaded; try again later.
pub const SYSTEM_BUSY: i32 = 2;
/// No processor for the request code.
pub const REQUEST_CODE_NOT_SUPPORTED: i32 = 3;
/// Stored, but not flushed to the disk in time.
pub const FLUSH_DISK_TIMEOUT: i32 = 10;
/// Stored, but there is no slave.
pub const SLAVE_NOT_AVAILABLE: i32 = 11;
/// Stored, but not replicated to a slave in time.
pub const FLUSH_SLAVE_TIMEOUT: i32 = 12;
/// The message is not allowed.
pub const MESSAGE_ILLEGAL: i32 = 13;
/// The store accepts no messages.
pub const SERVICE_NOT_AVAILABLE: i32 = 14;
/// The permissions of the topic or the client do not allow it.
pub const NO_PERMISSION: i32 = 16;
/// The broker does not have the topic.
pub const TOPIC_NOT_EXIST: i32 = 17;
/// The queue has no new message.
pub const PULL_NOT_FOUND: i32 = 19;
/// No message for the subscription; pull again at once.
pub const PULL_RETRY_IMMEDIATELY: i32 = 20;
/// The offset does not exist.
pub const PULL_OFFSET_MOVED: i32 = 21;
/// The group has no offset in the queue.
pub const QUERY_NOT_FOUND: i32 = 22;
/// The message has no buyer.
pub const NO_BUYER_ID: i32 = 204;
/// The message belongs to another unit.
pub const NOT_IN_CURRENT_UNIT: i32 = 205;
