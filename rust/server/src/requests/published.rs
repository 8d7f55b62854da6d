//! Requests answered with bodies that Python published: the clients of a group (38) and a topic's
//! route (105).

use crate::requests::context::{Context, Handled};

/// Clients of this version (RocketMQ 4.9.4) or newer get routes in standard JSON.
const STANDARD_JSON_VERSION: i32 = 401;

/// 38: the clients of a group. Declines if no list is published (unknown or empty group).
pub(crate) fn consumer_list(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let Some(group) = context.frame.ext.get("consumerGroup") else {
        return Handled::Declined;
    };
    let Some(body) = context
        .core
        .state
        .tables
        .answers
        .get(&format!("38|{group}"))
    else {
        return Handled::Declined;
    };
    context.reply_empty_map(&body, out);
    Handled::Native
}

/// 105: a topic's route. Declines if none is published.
pub(crate) fn topic_route(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let frame = context.frame;
    let Some(topic) = frame.ext.get("topic") else {
        return Handled::Declined;
    };
    let asked = frame
        .ext
        .get("acceptStandardJsonOnly")
        .is_some_and(|text| text == "true");
    let standard = asked || frame.version >= STANDARD_JSON_VERSION;
    let style = if standard { "std" } else { "legacy" };
    let Some(body) = context
        .core
        .state
        .tables
        .answers
        .get(&format!("105|{style}|{topic}"))
    else {
        return Handled::Declined;
    };
    context.reply_body(&body, out);
    Handled::Native
}
