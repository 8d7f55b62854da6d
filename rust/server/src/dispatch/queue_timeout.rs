//! Replies with code 2 to requests that waited for Python longer than their family allows.

use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::dispatch::routing;
use crate::limits::QUEUE_TICK_MS;
use mq_format::codes;

/// Start of the remark for a send that waited while the store was busy.
const DRAINED: &str = "[PCBUSY_CLEAN_QUEUE]";
/// Start of the remark for a request that waited too long.
const EXPIRED: &str = "[TIMEOUT_CLEAN_QUEUE]";

/// Removes late requests from the queues as long as the server lives; sleeps while none comes.
pub(crate) async fn keep_queues(core: Arc<Core>) {
    let alarm = &core.handoff.queued;
    loop {
        alarm.sleep(core.clock.monotonic_ms(), Duration::MAX).await;
        alarm.clear();
        loop {
            // Also after a request that was taken at once: a wake-up for each would cost more.
            tokio::time::sleep(Duration::from_millis(QUEUE_TICK_MS)).await;
            clean(&core);
            if core.handoff.open() == 0 {
                break;
            }
        }
    }
}

/// Replies with code 2 to requests that waited too long.
fn clean(core: &Arc<Core>) {
    if !core.handoff.overload.is_on() {
        return;
    }
    let now_ms = core.clock.monotonic_ms();
    let sends = core.routes.family(codes::SEND_MESSAGE, 0);
    let drained = sends.filter(|_| core.is_page_cache_busy());
    for (family, patience_ms) in core.handoff.overload.patience_ms().enumerate() {
        let (limit_ms, why) = match drained {
            Some(sends) if sends == family => (0, DRAINED),
            _ => (patience_ms, EXPIRED),
        };
        // The replies are sent outside the queue's lock, because each is a write and may resume
        // other sends.
        while let Some((request, left)) = core.handoff.pop_late(family, now_ms, limit_ms) {
            let waited_ms = now_ms - request.queued_ms();
            let remark = format!(
                "{why}broker busy, start flow control for a while, \
                 period in queue: {waited_ms}ms, size of queue: {left}"
            );
            routing::refuse(core, request, &remark);
        }
    }
}
