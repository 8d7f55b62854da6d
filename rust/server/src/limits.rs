//! Every limit of the server, with its unit and its effect.

use std::time::Duration;

/// Largest frame with its length field, bytes; a larger one closes its connection.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// Longest header of a frame, bytes, unless the settings set another; a longer one closes its
/// connection. The properties of a message, at most 32,767 bytes, take at most 196,602 as JSON.
pub const HEADER_BYTES_MAX: usize = 256 << 10;

/// Number of header fields, unless the settings set another; more close their connection.
pub const HEADER_FIELDS_MAX: usize = 256;

/// Largest read, bytes. The buffer belongs to the worker thread, not to the connection.
pub const READ_BYTES: usize = mq_net::receiver::READ_BYTES;

/// First read size of a connection, bytes. It doubles after each full read, and halves when the
/// replies exceeded a turn. So most requests of a client that requests much and reads nothing stay
/// in the client's socket.
pub const FIRST_READ_BYTES: usize = 4 << 10;

/// Reply bytes per turn without a permit. For more, a connection waits for one of (cores − 1)
/// long-turn permits, so clients that request little are served at once. One turn holds four pulls
/// of 32 KiB.
pub const SHORT_TURN_BYTES: usize = 128 << 10;

/// A connection whose last turn had longer replies than this, bytes, or that had no turn yet,
/// starts no pull in a short turn while all long-turn permits are taken.
pub const BULK_BYTES: usize = SHORT_TURN_BYTES / 2;

/// A client that has read this many bytes of replies reads: the system buffers fewer for one that
/// does not.
pub const TAKEN_BYTES: usize = 256 << 10;

/// Pause between two long turns of clients that have read less, which run one at a time. The timer
/// rounds it up to whole milliseconds.
pub const TRIAL_REST: Duration = Duration::from_micros(500);

/// Reply bytes that end such a turn.
pub const TRIAL_TURN_BYTES: usize = 32 << 10;

/// Bytes that the system may buffer unsent for such a client; a client that reads gets them at
/// once.
pub const TRIAL_UNSENT_BYTES_MAX: u32 = 32 << 10;

/// Bytes that the system may buffer unsent for a client. Without a limit, a client that does not
/// read takes up to 4 MB of the socket memory that all connections share.
pub const UNSENT_BYTES_MAX: u32 = 256 << 10;

/// A connection with more unread replies than this, bytes, is not read until some are written.
pub const UNREAD_BYTES_PAUSE: usize = 1 << 20;

/// Requests of such a connection that wait until then; one more gets code 2.
pub const PARKED_MAX: usize = 4_096;

/// Replies that wait until their messages are flushed. While there are this many, sends are
/// answered 2. This limits the memory that a disk which hangs can cost.
pub const PENDING_ACKS_MAX: usize = 65_536;

/// A connection with more unread replies than this, bytes, is closed: its client does not read.
pub const UNREAD_BYTES_MAX: usize = 64 << 20;

/// A reply of more than `LARGE_REPLY_BYTES` is replaced by code 2 if the unread replies of all
/// clients would then exceed this, bytes, unless the settings set another limit.
pub const REPLY_BYTES_MAX: usize = 64 << 20;

/// If the unread replies of all clients exceed the limit divided by this, a client with more unread
/// replies than `OUTBOUND_SHARE_BYTES` is not read or served until it has read some.
pub const OUTBOUND_PARTS: usize = 2;

/// Unread replies that a client may always have, bytes.
pub const OUTBOUND_SHARE_BYTES: usize = 64 << 10;

/// Size of a reply that is never replaced for that reason, bytes: the most that a pull may
/// transfer.
pub const LARGE_REPLY_BYTES: usize = 256 << 10;

/// While large replies find no room, a client with more unread replies than its share that has read
/// nothing for this long is closed, milliseconds.
pub const UNREAD_MS_MAX: i64 = 30_000;

/// Milliseconds between two checks for such clients.
pub const UNREAD_LOOK_MS: i64 = 1_000;

/// Memory of incomplete frames of all connections, bytes, unless the settings set another limit.
/// Above it, the connections whose frame began first are closed.
pub const UNFINISHED_BYTES_MAX: usize = 128 << 20;

/// At the limit, connections are closed until 1/32 of it is free. Closing few at once avoids one
/// long release of memory.
pub const UNFINISHED_PARTS: usize = 32;

/// Seconds from the first byte of a frame to its last, unless the settings set another limit; then
/// the connection is closed. Time in which the server does not read does not count.
pub const FRAME_SECONDS_MAX: u64 = 30;

/// Minimum average rate of a frame after its grace time, bytes per second, unless the settings set
/// another; a slower frame closes its connection.
pub const FRAME_BYTES_PER_SECOND_MIN: u64 = 1_024;

/// The grace time is 1/3 of the time that a frame may take.
pub const FRAME_GRACE_PARTS: u32 = 3;

/// A larger frame, bytes, needs room in the budget of large requests before the server reads on.
pub const LARGE_FRAME_BYTES: usize = 1 << 20;

/// Budget for large requests of all connections while they are received or served, bytes, unless
/// the settings set another. A frame without room waits, and its connection is not read.
pub const LARGE_BYTES_MAX: usize = 64 << 20;

/// The large requests of one connection may use 1/4 of that budget, or one frame.
pub const LARGE_PARTS: usize = 4;

/// Connections at once, unless the settings set another limit; one more is closed on accept.
pub const CONNECTIONS_MAX: usize = 65_536;

/// TLS handshakes at once, unless the settings set another limit. One more closes the connection
/// whose client has been silent for longest in its handshake.
pub const HANDSHAKES_MAX: usize = 1_024;

/// The same for one source: an IPv4 address or an IPv6 /64 network.
pub const SOURCE_HANDSHAKES_MAX: usize = 512;

/// Handshakes may use 1/4 of all connections, if that is fewer.
pub const HANDSHAKE_PARTS: usize = 4;

/// Seconds that a TLS handshake may take, unless the settings set another limit; then its
/// connection is closed.
pub const HANDSHAKE_SECONDS_MAX: u64 = 10;

/// Connections that may wait for `accept` (RocketMQ's serverSocketBacklog).
pub const BACKLOG: u32 = 1_024;

/// Threads that read messages from the disk.
pub const COLD_THREADS: usize = 4;

/// Pulls that may wait for those threads; one more gets code 2.
pub const COLD_QUEUE: usize = 4_096;

/// Milliseconds between two checks for late requests in the queues to Python (RocketMQ: 10).
pub const QUEUE_TICK_MS: u64 = 10;

/// Long polls at once; one more is answered at once.
pub const HOLDS_MAX: usize = 1_000_000;

/// Long polls of one connection, so that other connections find room; one more is answered at once.
pub const HOLDS_OF_CLIENT_MAX: usize = HOLDS_MAX / 16;

/// Bytes of the filters in long polls. Each filter counts as the bytes beyond
/// `HOLD_FILTER_BYTES_FREE`; a pull that exceeds the limit is answered at once.
pub const HOLD_FILTER_BYTES_MAX: usize = 64 << 20;

/// Bytes of a filter that do not count; enough for 32 tags.
pub const HOLD_FILTER_BYTES_FREE: usize = 128;

/// Longest time of a long poll in milliseconds, whatever the client asks for. It bounds how long
/// memory is kept for a deadline. RocketMQ's clients ask for 20 s.
pub const HOLD_MS_MAX: i64 = 300_000;

/// Long polls whose deadlines lie in the same interval of this many milliseconds end together.
pub const HOLD_TICK_MS: u64 = 100;

/// Milliseconds between two removals of the long polls of closed connections.
pub const HOLD_SWEEP_MS: i64 = 5_000;

/// Milliseconds between two checks whether the machine's clock was set.
pub const CLOCK_CHECK_MS: u64 = 1_000;

/// With this many sends waiting for a send that Python decides, a connection is not read.
pub const DEFERRED_SENDS_PAUSE: usize = 4_096;

/// Such sends were read before the pause; one more than this gets code 2.
pub const DEFERRED_SENDS_MAX: usize = 2 * DEFERRED_SENDS_PAUSE;

/// With this many bytes of waiting sends, a connection is not read.
pub const DEFERRED_BYTES_PAUSE: usize = DEFERRED_BYTES_MAX / 2;

/// Bytes of waiting sends of one connection; more get code 2.
pub const DEFERRED_BYTES_MAX: usize = 32 << 20;

/// Bytes of all requests in Python's hands and of sends that wait for one, unless the settings set
/// another limit; more get code 2.
pub const HANDOFF_BYTES_MAX: usize = 128 << 20;

/// A heartbeat with a longer body, bytes, always goes to Python, because comparing it would take
/// longer than a short turn.
pub const HEARTBEAT_BYTES_MAX: usize = 128 << 10;

/// A longer frame for Python, bytes, goes to the family of long requests, if there is one.
pub const LARGE_REQUEST_BYTES: usize = HEARTBEAT_BYTES_MAX;

/// Requests to one client that may wait for a reply at once.
pub const CALLS_MAX: usize = 256;

/// Replies of clients that Python has not taken; one more is dropped.
pub const CLIENT_REPLIES_MAX: usize = 65_536;

/// Largest reply of a client, bytes; a larger one counts as no reply.
pub const CLIENT_REPLY_BYTES_MAX: usize = 4 << 20;

/// Bytes of all replies that Python has not taken; a reply beyond it counts as no reply.
pub const CLIENT_REPLY_BYTES_ALL: usize = 64 << 20;

/// Connection events that Python has not taken. One more drops the oldest and counts it; the
/// membership tables also expire silent clients.
pub const EVENTS_MAX: usize = 65_536;

/// Published reply bodies, bytes of keys and bodies; the least recently used are evicted first.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Rows of queues read by groups in one shard of the statistics, between two collections.
pub const TRAFFIC_ROWS_MAX: usize = 16_384;

/// Milliseconds after which another client may take a queue lock that was not renewed.
pub const LOCK_EXPIRY_MS: i64 = 60_000;

/// Sends are refused while the put lock is held longer than this, milliseconds, until Python sets
/// `osPageCacheBusyTimeOutMills`.
pub const PUT_LOCK_BUSY_MS: i64 = 1_000;

/// ... unless it is held for longer than this, which RocketMQ considers a clock error.
pub const PUT_LOCK_ABSURD_MS: i64 = 10_000_000;
