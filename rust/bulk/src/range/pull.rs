//! The frame of a pull, and its outcome.

use mq_format::codes::{
    PULL_MESSAGE, PULL_NOT_FOUND, PULL_OFFSET_MOVED, PULL_RETRY_IMMEDIATELY, SERVICE_NOT_AVAILABLE,
    SUCCESS, SYSTEM_BUSY,
};
use mq_format::remoting::{FieldValue, Frame, Head, Serialize};

use super::error::Why;
use super::plan::Plan;
use super::window::{Pull, Reply};
use crate::inbox::Answer;
use mq_client::credentials::Credentials;
use mq_client::events::Failure;

/// Flag of a pull whose subscription is in the request, so that it needs no heartbeat.
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

/// The reply to a pull, or the reason why there is none.
pub(super) type Pulled = Result<Reply, Why>;

impl Answer for Pulled {
    fn of_reply(reply: &Frame<'_>) -> Self {
        read(reply)
    }

    fn of_failure(failure: Failure) -> Self {
        Err(match failure {
            Failure::Unreachable(_) | Failure::Timeout { .. } | Failure::Busy(_) => {
                Why::NoReply(failure)
            }
            Failure::BadFrame(_) | Failure::Closed => Why::Broken(failure.to_string()),
        })
    }
}

/// Reads the reply to a pull.
fn read(frame: &Frame<'_>) -> Pulled {
    let remark = || frame.remark.as_deref().unwrap_or_default().to_owned();
    match frame.code {
        SUCCESS | PULL_NOT_FOUND | PULL_RETRY_IMMEDIATELY | PULL_OFFSET_MOVED => {}
        code @ (SYSTEM_BUSY | SERVICE_NOT_AVAILABLE) => {
            let remark = remark();
            return Err(Why::Busy { code, remark });
        }
        code => {
            let remark = remark();
            return Err(Why::Refused { code, remark });
        }
    }
    let next = frame.ext.get("nextBeginOffset").unwrap_or_default();
    let next = next.parse();
    Ok(Reply {
        code: frame.code,
        next: next.map_err(|_| Why::Broken("the reply has no nextBeginOffset".to_owned()))?,
        body: frame.body.to_vec(),
    })
}
