//! Requests that waited for Python for longer than their family allows are answered 2.

use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::limits::{IDLE_TICK_MS, QUEUE_TICK_MS};
use crate::requests::dispatch;
use mq_format::codes;

/// Start of the remark that answers a send which waited while the store could not keep up.
const DRAINED: &str = "[PCBUSY_CLEAN_QUEUE]";
/// Start of the remark that answers a request which waited for too long.
const EXPIRED: &str = "[TIMEOUT_CLEAN_QUEUE]";

/// Looks after the queues for as long as the server lives.
pub(crate) async fn keep_queues(core: Arc<Core>) {
    loop {
        let is_idle = core.handoff.open() == 0;
        let pause_ms = if is_idle { IDLE_TICK_MS } else { QUEUE_TICK_MS };
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        clean(&core);
    }
}

/// Answers 2 to what waited for too long.
fn clean(core: &Arc<Core>) {
    if !core.overload.is_on() {
        return;
    }
    let now_ms = core.clock.monotonic_ms();
    let sends = core.routes.family(codes::SEND_MESSAGE, 0);
    let drained = sends.filter(|_| core.is_page_cache_busy());
    for (family, patience_ms) in core.overload.patience_ms().enumerate() {
        let (limit_ms, why) = match drained {
            Some(sends) if sends == family => (0, DRAINED),
            _ => (patience_ms, EXPIRED),
        };
        // Answered outside the queue's lock: each answer is written, and may let others go.
        while let Some((request, left)) = core.handoff.pop_late(family, now_ms, limit_ms) {
            let waited_ms = now_ms - request.queued_ms();
            let remark = format!(
                "{why}broker busy, start flow control for a while, \
                 period in queue: {waited_ms}ms, size of queue: {left}"
            );
            dispatch::refuse(core, request, &remark);
        }
    }
}
