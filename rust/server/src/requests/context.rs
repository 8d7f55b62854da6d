//! A request being answered, and the replies that need no more than its frame.

use std::sync::Arc;

use crate::conn::frames::Whole;
use crate::conn::peers::Peer;
use crate::shared::Shared;
use mq_format::remoting::Frame;

/// A request being answered: where it came from and what it says.
pub(crate) struct Context<'a> {
    pub shared: &'a Shared,
    pub peer: &'a Arc<Peer>,
    pub frame: &'a Frame<'a>,
    /// The frame as it came.
    pub whole: Whole<'a>,
}

/// Whether the native side answered, or will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handled {
    /// Answered, parked, held, or in no need of an answer.
    Native,
    /// Python decides.
    Declined,
}

impl Context<'_> {
    /// Appends a reply without fields or body; nothing if the client wants none.
    pub(crate) fn reply(&self, code: i32, remark: Option<&str>, out: &mut Vec<u8>) {
        if !self.frame.is_oneway() {
            self.frame.reply(code, remark).encode(&[], &[], out);
        }
    }

    /// Success with a body.
    pub(crate) fn reply_body(&self, body: &[u8], out: &mut Vec<u8>) {
        if !self.frame.is_oneway() {
            self.frame.reply(0, None).encode(&[], body, out);
        }
    }

    /// Success with an empty map of fields, which RocketMQ gives 15 and 38.
    pub(crate) fn reply_empty_map(&self, body: &[u8], out: &mut Vec<u8>) {
        if !self.frame.is_oneway() {
            self.frame.reply(0, None).encode_empty_map(body, out);
        }
    }
}
