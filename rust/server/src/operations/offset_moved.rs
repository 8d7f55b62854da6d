//! The notice RocketMQ stores when a pull asks for an offset that does not exist (code 21).

use serde::Serialize;

use crate::operations::server_state::ServerState;
use crate::state::queue_locks::QueueName;
use mq_store::PutRequest;

const OFFSET_MOVED_EVENT: &str = "OFFSET_MOVED_EVENT";

/// RocketMQ's OffsetMovedEvent; fields in the order fastjson writes them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OffsetMovedEvent<'a> {
    consumer_group: &'a str,
    message_queue: QueueName,
    offset_new: i64,
    offset_request: i64,
}

/// Stores the notice; `asked` is topic, queue and offset of the pull. The pull does not wait for
/// it.
pub(super) fn note(state: &ServerState, group: &str, asked: (&str, i32, i64), offset_new: i64) {
    let (Some(store), Some(broker)) = (&state.store, state.tables.broker()) else {
        return;
    };
    let (topic, queue_id, offset_request) = asked;
    let broker_name = broker.broker_name.clone();
    let event = OffsetMovedEvent {
        consumer_group: group,
        message_queue: QueueName {
            broker_name,
            queue_id,
            topic: topic.to_owned(),
        },
        offset_new,
        offset_request,
    };
    let Ok(body) = serde_json::to_vec(&event) else {
        return;
    };
    let properties = format!("KEYS\x01{group}\x02DELAY\x010\x02TAGS\x01{group}");
    // The client gets the same reply whether or not the notice is stored.
    let _ = store.try_put(&PutRequest {
        topic: OFFSET_MOVED_EVENT,
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: state.clock.wall_ms(),
        born_host: broker.store_host,
        store_host: broker.store_host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: &body,
        properties: properties.as_bytes(),
        wait_store_ok: false,
        delay_level: 0,
        was_accepted: false,
    });
}
