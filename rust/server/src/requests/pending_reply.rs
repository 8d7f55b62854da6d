//! Replies that wait for a flush: to sends, and to the ends of transactions.

use std::sync::Arc;

use crate::conn::peers::Peer;
use crate::requests::send_reply::{Outcome, SendReply};
use crate::tables::broker_row::BrokerRow;
use crate::waiting::pending_acks::{AckReply, PendingAcks};
use mq_format::remoting::{Head, ReplyTo};
use mq_store::{AckOutcome, PutResult, Store, Ticket};

/// A reply whose message is stored, but not yet as durable as configured.
pub(crate) struct PendingReply {
    pub peer: Arc<Peer>,
    pub to: ReplyTo,
    pub request: PendingRequest,
}

/// The request that gets the reply.
pub(crate) enum PendingRequest {
    /// A send.
    Send {
        broker: Arc<BrokerRow>,
        /// The queue of the message.
        queue_id: i32,
        result: PutResult,
    },
    /// The end of a transaction, which succeeds even if its op message is not durable.
    EndTransaction { remark: Option<&'static str> },
}

impl PendingReply {
    /// Keeps the reply until its ticket is settled, or appends it to `out` if it need not wait.
    pub(crate) fn park(
        self,
        pending: &PendingAcks<Self>,
        store: &Store,
        ticket: Ticket,
        out: &mut Vec<u8>,
    ) {
        if let Some((reply, outcome)) = pending.park(store, ticket, self) {
            reply.encode(outcome, out);
        }
    }
}

impl AckReply for PendingReply {
    fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    fn encode(&self, outcome: AckOutcome, out: &mut Vec<u8>) {
        let to = self.to;
        match &self.request {
            PendingRequest::Send {
                broker,
                queue_id,
                result,
            } => SendReply {
                to,
                broker,
                queue_id: *queue_id,
            }
            .encode(&Outcome::after_wait(outcome), result, out),
            PendingRequest::EndTransaction { remark } => {
                Head::reply(to, 0, *remark).encode(&[], &[], out);
            }
        }
    }
}
