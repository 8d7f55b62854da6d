//! Offsets of queues, and the offsets that groups committed.

use crate::operations::server_state::ServerState;
use mq_store::Store;

/// A group's position in a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position<'a> {
    pub group: &'a str,
    pub topic: &'a str,
    pub queue_id: i32,
}

/// The committed offset. 0 for a group that is new to a queue whose first message is still in
/// memory, if `zero_if_new`. Otherwise None; the client then decides where to begin.
pub(crate) fn committed(store: &Store, at: Position<'_>, zero_if_new: bool) -> Option<i64> {
    let committed = store.committed(at.group, at.topic, at.queue_id);
    committed.filter(|offset| *offset >= 0).or_else(|| {
        let starts_at_zero = zero_if_new
            && store.min_offset(at.topic, at.queue_id) <= 0
            && !store.is_on_disk(at.topic, at.queue_id, 0);
        starts_at_zero.then_some(0)
    })
}

/// Commits an offset. False for a new offset whose group, topic or queue is not in the tables, or
/// that has no room.
pub(crate) fn commit(state: &ServerState, store: &Store, at: Position<'_>, offset: i64) -> bool {
    let Position {
        group,
        topic,
        queue_id,
    } = at;
    let within = |entries_max| store.commit(group, topic, queue_id, offset, entries_max);
    let tables = &state.tables;
    let may_be_new = || {
        let queues = tables
            .topics
            .with(topic, |row| row.read_queues.max(row.write_queues))?;
        tables.groups.with(group, |_| ())?;
        (0..queues).contains(&queue_id).then_some(())?;
        tables.broker.with(|row| row.offsets_max)
    };
    within(0) || may_be_new().is_some_and(within)
}
