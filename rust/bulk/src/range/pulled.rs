//! What became of a pull.

use mq_format::codes::{
    PULL_NOT_FOUND, PULL_OFFSET_MOVED, PULL_RETRY_IMMEDIATELY, SERVICE_NOT_AVAILABLE, SUCCESS,
    SYSTEM_BUSY,
};
use mq_format::remoting::Frame;

use super::error::Why;
use super::window::Reply;
use crate::inbox::Answer;
use mq_client::events::Failure;

/// The reply to a pull, or why there is none.
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

/// What a frame says of a pull.
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
