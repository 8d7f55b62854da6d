//! Converts Python's mappings to the server's settings and tables.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};

use super::mappings::{bad, optional, required, seconds};
use super::tls;
use mq_format::filter::Sql;
use mq_format::remoting::HeaderLimits;
use mq_server::{
    BrokerRow, Change, DataPlane, FilterRow, FrameLimits, GroupFilter, GroupRow, Kind, LockLimits,
    Settings, StoredReplies, Subscription, SubscriptionRow, TopicRow,
};
use mq_store::BloomHint;

/// The keys of `Server`; any other key is an error.
const KEYS: [&str; 23] = [
    "kind",
    "host",
    "port",
    "fast_port",
    "worker_threads",
    "data_plane",
    "max_frame_bytes",
    "max_header_bytes",
    "max_header_fields",
    "frame_timeout",
    "min_frame_rate",
    "max_large_bytes",
    "max_reply_bytes",
    "max_unfinished_bytes",
    "max_handoff_bytes",
    "idle_timeout",
    "max_connections",
    "families",
    "routes",
    "default_family",
    "store_host",
    "name",
    "tls",
];

/// The server's settings.
pub(super) fn settings(map: &Bound<'_, PyMapping>) -> PyResult<Settings> {
    for key in map.keys()?.iter() {
        let key: String = key.extract()?;
        if !KEYS.contains(&key.as_str()) {
            return Err(bad(
                &key,
                "?",
                &format!("unknown setting; known are {KEYS:?}"),
            ));
        }
    }
    let kind: String = required(map, "kind")?;
    let plane: String = optional(map, "data_plane")?.unwrap_or_else(|| "native".to_owned());
    let defaults = Settings::default();
    let families: HashMap<String, usize> = optional(map, "families")?.unwrap_or_default();
    let idle: Option<f64> = optional(map, "idle_timeout")?;
    let frame_timeout: Option<f64> = optional(map, "frame_timeout")?;
    let frame_bytes_max = match optional(map, "max_frame_bytes")? {
        None => defaults.frame_bytes_max,
        Some(bytes @ 64..=0x7FFF_FFFF) => bytes,
        Some(bytes) => return Err(bad("max_frame_bytes", bytes, "64 bytes to 2 GiB")),
    };
    let replies: Option<usize> = optional(map, "max_reply_bytes")?;
    let replies = replies.unwrap_or(defaults.reply_bytes_max);
    let unfinished: Option<usize> = optional(map, "max_unfinished_bytes")?;
    let unfinished = unfinished.unwrap_or(defaults.unfinished_bytes_max);
    let handoff: Option<usize> = optional(map, "max_handoff_bytes")?;
    let handoff = handoff.unwrap_or(defaults.handoff_bytes_max);
    Ok(Settings {
        kind: match kind.as_str() {
            "broker" => Kind::Broker,
            "namesrv" => Kind::NameServer,
            _ => return Err(bad("kind", kind, "\"broker\" or \"namesrv\"")),
        },
        host: optional(map, "host")?.unwrap_or(defaults.host),
        port: required(map, "port")?,
        fast_port: optional(map, "fast_port")?,
        worker_threads: optional(map, "worker_threads")?,
        data_plane: match plane.as_str() {
            "native" => DataPlane::Native,
            "python" => DataPlane::Python,
            _ => return Err(bad("data_plane", plane, "\"native\" or \"python\"")),
        },
        frame_bytes_max,
        header: HeaderLimits {
            bytes: optional(map, "max_header_bytes")?.unwrap_or(defaults.header.bytes),
            fields: optional(map, "max_header_fields")?.unwrap_or(defaults.header.fields),
        },
        frame: FrameLimits {
            time: frame_timeout.map_or(defaults.frame.time, seconds),
            bytes_per_second: optional(map, "min_frame_rate")?
                .unwrap_or(defaults.frame.bytes_per_second),
        },
        large_bytes_max: optional(map, "max_large_bytes")?.unwrap_or(defaults.large_bytes_max),
        // A reply of the largest size must have room while no client is owed anything.
        reply_bytes_max: replies.max(frame_bytes_max),
        // A buffer doubles as it grows, and must be able to hold a frame of the largest size.
        unfinished_bytes_max: unfinished.max(2 * frame_bytes_max),
        // Half of it must have room for a request of the largest size.
        handoff_bytes_max: handoff.max(2 * frame_bytes_max),
        idle_timeout: idle.map_or(defaults.idle_timeout, seconds),
        connections_max: optional(map, "max_connections")?.unwrap_or(defaults.connections_max),
        families: families.into_iter().collect(),
        routes: optional(map, "routes")?.unwrap_or_default(),
        default_family: optional(map, "default_family")?,
        tls: tls::server_settings(map)?,
    })
}

/// Published rows: a name to a row, or to None which deletes it.
pub(super) fn changes<'py, R>(
    rows: &Bound<'py, PyMapping>,
    row: impl Fn(&str, Bound<'py, PyAny>) -> PyResult<R>,
) -> PyResult<Vec<Change<R>>> {
    let mut changes = Vec::with_capacity(rows.len()?);
    for item in rows.items()?.iter() {
        let (name, value): (String, Bound<'py, PyAny>) = item.extract()?;
        let value = if value.is_none() {
            None
        } else {
            Some(row(&name, value)?)
        };
        changes.push((name, value));
    }
    Ok(changes)
}

/// The connection numbers that are a table's keys.
pub(super) fn connections(rows: &Bound<'_, PyMapping>) -> PyResult<Vec<u64>> {
    let parse = |name: String| {
        let number = name.parse();
        number.map_err(|_| PyValueError::new_err(format!("{name:?} is no connection")))
    };
    let names: Vec<String> = rows.keys()?.extract()?;
    names.into_iter().map(parse).collect()
}

/// The one row of table "broker", under the key "".
pub(super) fn broker(rows: &Bound<'_, PyMapping>) -> PyResult<BrokerRow> {
    let row = rows.get_item("")?.cast_into::<PyMapping>()?;
    let store_host: String = required(&row, "store_host")?;
    let parsed: Result<SocketAddr, _> = store_host.parse();
    let usual = BrokerRow::default();
    let locks = LockLimits {
        all: optional(&row, "queue_lock_max")?.unwrap_or(usual.locks.all),
        of_client: optional(&row, "client_queue_lock_max")?.unwrap_or(usual.locks.of_client),
        of_source: optional(&row, "source_queue_lock_max")?.unwrap_or(usual.locks.of_source),
    };
    Ok(BrokerRow {
        permission: required(&row, "permission")?,
        region_id: required(&row, "region_id")?,
        trace_on: required(&row, "trace_on")?,
        cluster_name: required(&row, "cluster_name")?,
        broker_name: optional(&row, "broker_name")?.unwrap_or_default(),
        long_polling: required(&row, "long_polling")?,
        short_polling_ms: required(&row, "short_polling_ms")?,
        max_message_bytes: required(&row, "max_message_bytes")?,
        start_accept_ms: optional(&row, "start_accept_ms")?.unwrap_or(0),
        reject_transaction: optional(&row, "reject_transaction")?.unwrap_or(false),
        slave_read: optional(&row, "slave_read")?.unwrap_or(false),
        is_slave: optional(&row, "is_slave")?.unwrap_or(false),
        corrects_offsets: optional(&row, "corrects_offsets")?.unwrap_or(true),
        property_filter: optional(&row, "property_filter")?.unwrap_or(false),
        filter_retry: optional(&row, "filter_retry")?.unwrap_or(false),
        store_host: parsed.map_err(|_| bad("store_host", store_host, "\"IP:PORT\""))?,
        accepting: optional(&row, "accepting")?.unwrap_or(true),
        offsets_max: optional(&row, "consumer_offset_max")?.unwrap_or(usual.offsets_max),
        locks,
        stored: StoredReplies::default(),
    })
}

/// (perm, read_queues, write_queues, multi_tag, order)
pub(super) fn topic(name: &str, row: Bound<'_, PyAny>) -> PyResult<TopicRow> {
    let (perm, read_queues, write_queues, multi_tag, order) = row.extract()?;
    Ok(TopicRow::new(
        name,
        perm,
        (read_queues, write_queues),
        multi_tag,
        order,
    ))
}

/// (consume_enable, consume_broadcast_enable, retry_max_times, retry_queues, broker_id,
/// slow_broker_id); retries are Python's affair.
pub(super) fn group(_name: &str, row: Bound<'_, PyAny>) -> PyResult<GroupRow> {
    Ok(GroupRow {
        consume_enable: row.get_item(0)?.extract()?,
        broadcast_enable: row.get_item(1)?.extract()?,
        broker_id: row.get_item(4)?.extract()?,
        slow_broker_id: row.get_item(5)?.extract()?,
    })
}

/// (bits, [(group, expression, [position])])
pub(super) fn filters(_topic: &str, row: Bound<'_, PyAny>) -> PyResult<FilterRow> {
    let (bit_count, filters): (u32, Vec<(String, String, Vec<u32>)>) = row.extract()?;
    let compiled = |(group, text, positions): (String, String, Vec<u32>)| {
        let sql = Sql::compile(&text).map_err(|error| bad("filter", text, &error.to_string()))?;
        Ok(GroupFilter {
            group,
            sql: Arc::new(sql),
            marks: Arc::new(BloomHint::new(bit_count, positions)),
        })
    };
    let filters = filters.into_iter().map(compiled);
    Ok(FilterRow {
        bit_count,
        filters: filters.collect::<PyResult<_>>()?,
    })
}

/// (broadcasting, {topic: (expression_type, sub_string, sub_version, [codes])})
pub(super) fn subscriptions(_name: &str, row: Bound<'_, PyAny>) -> PyResult<SubscriptionRow> {
    let (broadcasting, topics): (bool, Bound<'_, PyDict>) = row.extract()?;
    let mut by_topic = HashMap::with_capacity(topics.len());
    for (topic, subscription) in topics {
        let (kind, text, version, codes): (Option<String>, Option<String>, i64, Vec<i32>) =
            subscription.extract()?;
        let kind = kind.as_deref().unwrap_or_default();
        let text = text.as_deref().unwrap_or_default();
        let sql = (kind == "SQL92").then(|| Sql::compile(text).ok()).flatten();
        let subscription = Subscription {
            by_tag: matches!(kind, "" | "TAG"),
            sql: sql.map(Arc::new),
            everything: text == "*",
            version,
            codes: Arc::from(codes),
        };
        by_topic.insert(topic.extract()?, subscription);
    }
    Ok(SubscriptionRow {
        broadcasting,
        topics: by_topic,
    })
}
