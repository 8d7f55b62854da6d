//! Every bound of the server in one place, with its unit and what happens when it is reached.

use std::time::Duration;

/// Largest frame, length word included, bytes; a larger one closes its connection.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// Longest header of a frame, bytes, when the settings name no number; a longer one closes its
/// connection. The properties of a message, 32,767 bytes at most, take 196,602 as JSON at worst.
pub const HEADER_BYTES_MAX: usize = 256 << 10;

/// Fields of a header when the settings name no number; more close their connection.
pub const HEADER_FIELDS_MAX: usize = 256;

/// Bytes read at once, at most. The buffer belongs to the worker thread, not to the connection.
pub const READ_BYTES: usize = mq_net::receiver::READ_BYTES;

/// Bytes that a connection is read at once at first: twice as many each time that all of them came,
/// half as many when the answers were more than a turn takes. A client that asks for much and takes
/// nothing is so left with most of its requests.
pub const FIRST_READ_BYTES: usize = 4 << 10;

/// Bytes of answers after which a connection that asked for more waits for a place for a long
/// turn, of which there is one fewer than cores: who asks for little is served at once. Four pulls
/// of 32 KiB asked for together are one turn.
pub const SHORT_TURN_BYTES: usize = 128 << 10;

/// A connection whose last turn's answers were longer than this, bytes, or that had none yet,
/// begins no pull in a short turn while all places for long ones are taken.
pub const BULK_BYTES: usize = SHORT_TURN_BYTES / 2;

/// A client that took so many bytes of answers reads: the system takes less for one that does not.
pub const TAKEN_BYTES: usize = 256 << 10;

/// Between two long turns of clients that took less, one at a time; the timer rounds it up to whole
/// milliseconds.
pub const TRIAL_REST: Duration = Duration::from_micros(500);

/// Bytes of answers that end such a turn.
pub const TRIAL_TURN_BYTES: usize = 32 << 10;

/// Bytes the system may keep for such a client that were not sent yet: one that reads is sent them
/// at once.
pub const TRIAL_UNSENT_BYTES_MAX: u32 = 32 << 10;

/// Bytes the system may keep for a client that were not sent yet. Without a limit one that does not
/// read takes up to 4 MB of the system's memory for sockets, which all connections share.
pub const UNSENT_BYTES_MAX: u32 = 256 << 10;

/// A connection that owes its client more than this, bytes, is not read until it has been written.
pub const UNREAD_BYTES_PAUSE: usize = 1 << 20;

/// Requests of such a connection that wait until then; one more is answered 2.
pub const PARKED_MAX: usize = 4_096;

/// Bytes that such requests of all connections take; more are answered 2. Half of what may be in
/// Python's hands: clients that do not read must leave room for those that do.
pub const PARKED_BYTES_MAX: usize = HANDOFF_BYTES_MAX / 2;

/// A connection that owes its client more than this, bytes, is closed: nobody is reading there.
pub const UNREAD_BYTES_MAX: usize = 64 << 20;

/// Once all clients together are owed more than this, bytes, one that is owed more than
/// `OWED_SHARE_BYTES` is served and read no further until it has taken some of its answers.
pub const OWED_BYTES_BUDGET: usize = 32 << 20;

/// What a client may be owed whatever the others are owed.
pub const OWED_SHARE_BYTES: usize = 64 << 10;

/// A reply with more bytes than `LARGE_REPLY_BYTES` is answered 2 instead while all clients
/// together would then be owed more than this, bytes.
pub const LARGE_REPLY_BUDGET: usize = 2 * OWED_BYTES_BUDGET;

/// Bytes of a reply that is never refused for that: what a pull may transfer.
pub const LARGE_REPLY_BYTES: usize = 256 << 10;

/// While large replies find no room, a client that is owed more than its share and has taken
/// nothing for this long is closed, milliseconds.
pub const UNREAD_MS_MAX: i64 = 30_000;

/// Milliseconds between two looks for such clients.
pub const UNREAD_LOOK_MS: i64 = 1_000;

/// Bytes of frames that have begun and not ended, of all connections, when the settings name no
/// number; above it those connections are closed whose frame began longest ago.
pub const UNFINISHED_BYTES_MAX: usize = 128 << 20;

/// Of the limit on unfinished frames, one part of so many is freed when it is reached: few
/// connections end together, whose memory the system takes its time to take back.
pub const UNFINISHED_PARTS: usize = 32;

/// Memory of frames that are done with, bytes, is kept for later ones up to this; more goes back to
/// the system.
pub const SPARE_BYTES_MAX: usize = 8 << 20;

/// Of a smaller buffer, bytes, nothing is kept.
pub const SPARE_BUFFER_BYTES: usize = 128 << 10;

/// Seconds from the first byte of a frame to its last, when the settings name no time; then the
/// connection is closed. Time in which the server does not read does not count.
pub const FRAME_SECONDS_MAX: u64 = 30;

/// Average bytes a second of a frame that takes longer than its grace, when the settings name no
/// number; a slower one closes its connection.
pub const FRAME_BYTES_PER_SECOND_MIN: u64 = 1_024;

/// That grace is one part in this many of the time a frame may take.
pub const FRAME_GRACE_PARTS: u32 = 3;

/// A frame over this, bytes, needs room in the budget of large requests before the server reads on.
pub const LARGE_FRAME_BYTES: usize = 1 << 20;

/// Bytes of large requests that are being received or served, of all connections, when the settings
/// name no number. A frame that finds no room waits, and its connection is not read meanwhile.
pub const LARGE_BYTES_MAX: usize = 64 << 20;

/// One connection's large requests take one part in this many of that, or one frame.
pub const LARGE_PARTS: usize = 4;

/// Connections at once when the settings name no number; one more is closed as it is accepted.
pub const CONNECTIONS_MAX: usize = 65_536;

/// TLS handshakes that go on at once, when the settings name no number. One more closes the
/// connection whose client has been silent for longest in its handshake.
pub const HANDSHAKES_MAX: usize = 1_024;

/// The same for the handshakes of one source: an IPv4 address or an IPv6 network of 64 bits.
pub const SOURCE_HANDSHAKES_MAX: usize = 512;

/// Handshakes take one part in this many of all connections, if that is fewer.
pub const HANDSHAKE_PARTS: usize = 4;

/// Seconds a TLS handshake may take when the settings name no time; then its connection is closed.
pub const HANDSHAKE_SECONDS_MAX: u64 = 10;

/// Connections that may wait for `accept` (RocketMQ's serverSocketBacklog).
pub const BACKLOG: u32 = 1_024;

/// Threads that read what is not in memory.
pub const COLD_THREADS: usize = 4;

/// Pulls that may wait for those threads; one more is answered 2 (busy).
pub const COLD_QUEUE: usize = 4_096;

/// Milliseconds between two looks at what waits in the queues to Python (RocketMQ's 10).
pub const QUEUE_TICK_MS: u64 = 10;

/// The same while nothing waits: an idle server is to sleep.
pub const IDLE_TICK_MS: u64 = 100;

/// Long polls at once; one more is answered at once instead of being held.
pub const HOLDS_MAX: usize = 1_000_000;

/// Long polls of one connection; one more is answered at once. Others must find room as well.
pub const HOLDS_OF_CLIENT_MAX: usize = HOLDS_MAX / 16;

/// Bytes of filters that held pulls brought along, each beyond `HOLD_FILTER_BYTES_FREE`; a pull
/// that comes with more is answered at once.
pub const HOLD_FILTER_BYTES_MAX: usize = 64 << 20;

/// A filter of so many bytes, 32 tags, counts for nothing.
pub const HOLD_FILTER_BYTES_FREE: usize = 128;

/// Milliseconds a request may be held, whatever it asks for: what is kept for its deadline goes
/// then. RocketMQ's clients ask for 20 s.
pub const HOLD_MS_MAX: i64 = 300_000;

/// Milliseconds between two looks at the deadlines of held requests.
pub const HOLD_TICK_MS: u64 = 100;

/// Of so many looks, one also forgets the requests of clients that are gone.
pub const HOLD_SWEEP_TICKS: u64 = 50;

/// With so many sends waiting behind one that Python decides, a connection is not read.
pub const DEFERRED_SENDS_PAUSE: usize = 4_096;

/// Of those that were read before it, one more than this is answered 2.
pub const DEFERRED_SENDS_MAX: usize = 2 * DEFERRED_SENDS_PAUSE;

/// With so many bytes of such sends waiting, a connection is not read.
pub const DEFERRED_BYTES_PAUSE: usize = DEFERRED_BYTES_MAX / 2;

/// Bytes of such waiting sends of one connection; more are answered 2.
pub const DEFERRED_BYTES_MAX: usize = 32 << 20;

/// Bytes of all requests in Python's hands, and of sends that wait for one; more are answered 2.
pub const HANDOFF_BYTES_MAX: usize = 128 << 20;

/// The same for those of the family of long requests: a flood of them must leave room for others.
pub const LARGE_HANDOFF_BYTES_MAX: usize = HANDOFF_BYTES_MAX / 2;

/// A longer heartbeat's body, bytes, always goes to Python: to compare it would take longer than a
/// short turn.
pub const HEARTBEAT_BYTES_MAX: usize = 128 << 10;

/// A longer frame for Python, bytes, waits in the family of long requests if there is one.
pub const LARGE_REQUEST_BYTES: usize = HEARTBEAT_BYTES_MAX;

/// Requests to one client that may wait for their reply at once.
pub const CALLS_MAX: usize = 256;

/// Replies of clients that Python has not taken yet; one more is dropped.
pub const CLIENT_REPLIES_MAX: usize = 65_536;

/// Largest reply of a client, bytes; a larger one counts as none.
pub const CLIENT_REPLY_BYTES_MAX: usize = 4 << 20;

/// Bytes of all replies that Python has not taken yet; one that finds no room counts as none.
pub const CLIENT_REPLY_BYTES_ALL: usize = 64 << 20;

/// Connection events kept for Python; when full the oldest is lost and counted (the membership
/// tables expire silent clients anyway).
pub const EVENTS_MAX: usize = 65_536;

/// Ready-made bodies, bytes of keys and bodies together; the least recently used go first.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Groups' queues that a thread counts reads of between two takings of the statistics.
pub const TRAFFIC_ROWS_MAX: usize = 16_384;

/// Milliseconds after which a queue lock that was not renewed may be taken by another client.
pub const LOCK_EXPIRY_MS: i64 = 60_000;

/// The put lock held for longer than this, milliseconds, refuses sends, until Python says
/// `osPageCacheBusyTimeOutMills`.
pub const PUT_LOCK_BUSY_MS: i64 = 1_000;

/// ... unless it is held for longer than this, which RocketMQ takes for a clock error.
pub const PUT_LOCK_ABSURD_MS: i64 = 10_000_000;
