//! The frame of a pull.

use mq_format::codes::PULL_MESSAGE;
use mq_format::remoting::{FieldValue, Head, Serialize};

use super::plan::Plan;
use super::window::Pull;
use mq_client::credentials::Credentials;

/// Pull flag: the subscription is in the request, no heartbeat is needed.
const INLINE_SUBSCRIPTION: i32 = 4;

/// Appends the frame of a pull, signed if there is an account.
pub(super) fn encode(
    plan: &Plan,
    credentials: Option<&Credentials>,
    pull: Pull,
    opaque: i32,
    out: &mut Vec<u8>,
) {
    let (expression_type, subscription) = plan.subscription.texts();
    let fields: [(&str, FieldValue<'_>); 12] = [
        ("consumerGroup", plan.group.as_str().into()),
        ("topic", plan.topic.as_str().into()),
        ("queueId", plan.queue_id.into()),
        ("queueOffset", pull.offset.into()),
        ("maxMsgNums", pull.count.into()),
        ("sysFlag", INLINE_SUBSCRIPTION.into()),
        ("commitOffset", 0.into()),
        ("suspendTimeoutMillis", 0.into()),
        ("subscription", subscription.into()),
        ("subVersion", 0.into()),
        ("expressionType", expression_type.into()),
        ("bname", plan.broker_name.as_str().into()),
    ];
    let head = Head::request(PULL_MESSAGE, opaque, Serialize::Json);
    match credentials {
        Some(account) => account.encode(&head, &fields, b"", out),
        None => head.encode(&fields, b"", out),
    }
}
