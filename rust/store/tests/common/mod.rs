//! A message to put, for tests and benches.

use std::net::SocketAddr;

use mq_store::PutRequest;

/// A message for queue 0, without properties.
pub fn request<'a>(topic: &'a str, body: &'a [u8]) -> PutRequest<'a> {
    PutRequest {
        topic,
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: 1,
        born_host: SocketAddr::from(([127, 0, 0, 1], 50_000)),
        store_host: SocketAddr::from(([127, 0, 0, 1], 10_911)),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: b"",
        wait_store_ok: true,
        delay_level: 0,
        was_accepted: false,
    }
}
