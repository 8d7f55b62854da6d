//! The filter of a pull: from the subscription that came with it, or from the heartbeats of its
//! group.

use std::sync::Arc;

use crate::tables::Tables;
use mq_format::filter::Sql;
use mq_format::message::java_hash;
use mq_store::MessageFilter;

/// Returns the filter of a subscription that came with the pull; None if its type is unknown or its
/// expression does not compile.
pub(super) fn inline_filter(expression: &str, expression_type: &str) -> Option<MessageFilter> {
    match expression_type {
        "" | "TAG" => {}
        "SQL92" => return Some(MessageFilter::Sql(Arc::new(Sql::compile(expression).ok()?))),
        _ => return None,
    }
    if expression.is_empty() || expression == "*" {
        return Some(MessageFilter::All);
    }
    if expression.split("||").all(str::is_empty) {
        return None; // RocketMQ cannot split it; Python replies with an error
    }
    let tags = expression
        .split("||")
        .map(str::trim)
        .filter(|tag| !tag.is_empty());
    Some(MessageFilter::Codes(tags.map(java_hash).collect()))
}

/// Returns the filter of the group's online clients. None if no client is online, if they do not
/// subscribe to the topic or not in this version, if the expression does not compile, or if they
/// may not broadcast.
pub(super) fn known_filter(
    tables: &Tables,
    group: &str,
    topic: &str,
    version: i64,
) -> Option<MessageFilter> {
    let filters = &tables.filters;
    let (broadcasting, filter) = tables.subscriptions.with(group, |row| {
        let subscription = row.topics.get(topic)?;
        if subscription.version < version {
            return None;
        }
        let filter = match (subscription.by_tag, subscription.everything) {
            (false, _) => filters.of(group, topic, subscription.sql.as_ref()?),
            (true, true) => MessageFilter::All,
            (true, false) => MessageFilter::Codes(Arc::clone(&subscription.codes)),
        };
        Some((row.broadcasting, filter))
    })??;
    let may_broadcast = || tables.groups.with(group, |row| row.broadcast_enable);
    (!broadcasting || may_broadcast() == Some(true)).then_some(filter)
}
