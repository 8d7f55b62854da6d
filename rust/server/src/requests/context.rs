//! A request that is being answered, and the replies that need only its frame.

use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;

use crate::clients::peers::Peer;
use crate::core::Core;
use mq_format::remoting::Frame;

/// A request that is being answered: its connection and its content.
pub(crate) struct Context<'a> {
    pub core: &'a Core,
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
    /// A field of the header as a number; None if it is missing or not a number.
    pub(crate) fn number<N: FromStr>(&self, name: &str) -> Option<N> {
        self.frame.ext.get(name)?.parse().ok()
    }

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

/// A whole frame, as its connection received it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole<'b> {
    pub bytes: &'b [u8],
    /// The same bytes, if the frame has its own memory; then `keep` need not copy.
    own: Option<&'b Bytes>,
}

impl<'b> Whole<'b> {
    /// A frame that shares its memory with other bytes.
    pub(crate) fn among(bytes: &'b [u8]) -> Self {
        Self { bytes, own: None }
    }

    /// A frame with its own memory.
    pub(crate) fn own(bytes: &'b Bytes) -> Self {
        Self {
            bytes,
            own: Some(bytes),
        }
    }

    /// Returns the frame in memory that the caller may keep.
    pub(crate) fn keep(self) -> Bytes {
        self.own
            .map_or_else(|| Bytes::copy_from_slice(self.bytes), Bytes::clone)
    }
}
