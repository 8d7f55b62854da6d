//! A request that is being answered, and the replies that need only its frame.

use std::sync::Arc;

use crate::conn::frames::Whole;
use crate::conn::peers::Peer;
use crate::shared::Shared;
use mq_format::remoting::Frame;

/// A request that is being answered: its connection and its content.
pub(crate) struct Context<'a> {
    pub shared: &'a Shared,
    pub peer: &'a Arc<Peer>,
    pub frame: &'a Frame<'a>,
    /// The frame as it came.
    pub whole: Whole<'a>,
}

/// Whether native code answers the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handled {
    /// Answered, waiting, a long poll, or without need of a reply.
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

    /// Replies with success and a body.
    pub(crate) fn reply_body(&self, body: &[u8], out: &mut Vec<u8>) {
        if !self.frame.is_oneway() {
            self.frame.reply(0, None).encode(&[], body, out);
        }
    }

    /// Replies with success, a body and an empty map of fields, as RocketMQ does for 15 and 38.
    pub(crate) fn reply_empty_map(&self, body: &[u8], out: &mut Vec<u8>) {
        if !self.frame.is_oneway() {
            self.frame.reply(0, None).encode_empty_map(body, out);
        }
    }
}
