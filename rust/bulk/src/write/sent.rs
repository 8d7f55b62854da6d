//! What became of a send.

use mq_format::codes::{FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE, SUCCESS};
use mq_format::remoting::Frame;

use super::error::Why;
use crate::inbox::Answer;
use mq_client::events::Failure;

/// The queue offset of the send's first message, or why it is not stored.
pub(super) type Sent = Result<i64, Why>;

impl Answer for Sent {
    fn of_reply(reply: &Frame<'_>) -> Self {
        read(reply)
    }

    fn of_failure(failure: Failure) -> Self {
        Err(Why::Failed(failure))
    }
}

/// What a frame says of a send. The three codes beside success say "stored" too.
fn read(frame: &Frame<'_>) -> Sent {
    if let SUCCESS | FLUSH_DISK_TIMEOUT | SLAVE_NOT_AVAILABLE | FLUSH_SLAVE_TIMEOUT = frame.code {
        let offset = frame.ext.get("queueOffset").unwrap_or_default();
        let no_offset = |_| Failure::BadFrame("the reply to a send has no queueOffset".to_owned());
        return offset.parse().map_err(no_offset).map_err(Why::Failed);
    }
    Err(Why::Refused {
        code: frame.code,
        remark: frame.remark.as_deref().unwrap_or_default().to_owned(),
    })
}
