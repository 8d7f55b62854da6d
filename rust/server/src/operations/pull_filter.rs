//! The filter of a pull: from the subscription in its header, or from the heartbeats of its group.

use std::sync::Arc;

use crate::shared::Shared;
use mq_format::filter::Sql;
use mq_format::message::java_hash;
use mq_format::remoting::Frame;
use mq_store::MessageFilter;

/// Returns the filter of a subscription that came with the request; None if its type is unknown or
/// its expression does not compile.
pub(crate) fn inline_filter(frame: &Frame<'_>) -> Option<MessageFilter> {
    let expression = frame.ext.get("subscription").unwrap_or("*");
    match frame.ext.get("expressionType").unwrap_or_default() {
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
pub(crate) fn known_filter(
    shared: &Shared,
    group: &str,
    topic: &str,
    version: i64,
) -> Option<MessageFilter> {
    let filters = &shared.tables.filters;
    let (broadcasting, filter) = shared.tables.subscriptions.with(group, |row| {
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
    let may_broadcast = || shared.tables.groups.with(group, |row| row.broadcast_enable);
    (!broadcasting || may_broadcast() == Some(true)).then_some(filter)
}
