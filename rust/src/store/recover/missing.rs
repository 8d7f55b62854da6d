//! Records of the log that queues lack, or have.

use crate::format::message::{RecordView, sys_flag};
use crate::format::multi_dispatch;
use crate::store::consume_queues::ConsumeQueues;
use crate::store::settings::MultiDispatch;

/// Where dispatch must start if the record at `offset` is missing in one of its queues.
pub(super) fn dispatch_from(
    queues: &ConsumeQueues,
    settings: MultiDispatch,
    offset: u64,
    record: &RecordView<'_>,
) -> Option<u64> {
    if !sys_flag::is_queued(record.sys_flag) {
        return None;
    }
    let own = (record.topic, record.queue_id);
    let from = from_queue(queues, offset, own, record.queue_offset);
    if !settings.enabled {
        return from;
    }
    let others =
        multi_dispatch::dispatches(record.properties).filter_map(|(name, queue_offset)| {
            let queue_id = multi_dispatch::queue_id_in(name, record.queue_id, settings.lmq_enabled);
            from_queue(queues, offset, (name, queue_id), queue_offset)
        });
    from.into_iter().chain(others).min()
}

/// For one queue: its end, or the start of the log if it is not there at all.
fn from_queue(
    queues: &ConsumeQueues,
    offset: u64,
    (topic, queue_id): (&str, i32),
    queue_offset: i64,
) -> Option<u64> {
    match queues.get(topic, queue_id) {
        None => Some(0),
        Some(queue) if queue_offset >= queue.max_offset() => {
            Some(offset.min(queue.end_physical().cast_unsigned()))
        }
        Some(_) => None,
    }
}

/// Whether a record was also queued in `topic` at an offset (RocketMQ's multi-dispatch).
pub(super) fn is_dispatched_to(record: &RecordView<'_>, topic: &str, offset: i64) -> bool {
    multi_dispatch::dispatches(record.properties).any(|found| found == (topic, offset))
}
