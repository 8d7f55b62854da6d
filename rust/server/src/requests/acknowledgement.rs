//! Replies that wait for a flush: kept after the put, and written when the store reports that their
//! tickets are settled.

use std::sync::Arc;

use crate::clients::peers::Peer;
use crate::core::Core;
use crate::requests::send_reply::{Outcome, SendReply};
use crate::waiting::pending_acks::{PendingAcks, PendingReply, PendingRequest};
use crate::waiting::reply_batch::ReplyBatch;
use mq_format::remoting::Head;
use mq_store::{AckOutcome, Settled, Ticket};

/// Keeps a reply until its ticket is settled, or appends it to `out` if it need not wait.
pub(crate) fn park(core: &Core, ticket: Ticket, reply: PendingReply, out: &mut Vec<u8>) {
    if let Some(store) = &core.state.store
        && let Some((reply, outcome)) = core.waiting.pending_acks.park(store, ticket, reply)
    {
        reply.encode(outcome, out);
    }
}

/// Writes the replies to settled tokens; the replies of a connection are written together. The
/// store's flush thread calls it.
pub(crate) fn settled<R: AckReply>(pending: &PendingAcks<R>, settled: &[Settled]) {
    let replies = pending.take(settled);
    let mut batch = ReplyBatch::default();
    for (reply, outcome) in &replies {
        batch.add(reply.peer(), |out| reply.encode(*outcome, out));
    }
    pending.note_lost(batch.send());
}

/// The data of a reply that waits for a flush.
pub(crate) trait AckReply {
    /// The connection of the client.
    fn peer(&self) -> &Arc<Peer>;
    /// Appends the frame of the reply.
    fn encode(&self, outcome: AckOutcome, out: &mut Vec<u8>);
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
            .encode(&Outcome::after_wait(outcome, result.status), result, out),
            PendingRequest::EndTransaction { remark } => {
                Head::reply(to, 0, *remark).encode(&[], &[], out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::reply_batch::tests::{peer, received};
    use mq_base::clock::SystemClock;
    use mq_store::testing::request;
    use mq_store::{Put, Settings, Store};

    /// Replies with one letter, or panics.
    struct Letter(Arc<Peer>, Option<u8>);

    impl AckReply for Letter {
        fn peer(&self) -> &Arc<Peer> {
            &self.0
        }

        fn encode(&self, outcome: AckOutcome, out: &mut Vec<u8>) {
            assert_eq!(outcome, AckOutcome::Durable);
            out.push(self.1.expect("of the reply"));
        }
    }

    #[tokio::test]
    async fn a_reply_that_panics_is_lost_alone_and_the_store_goes_on() {
        let root = tempfile::tempdir().unwrap();
        let settings = Settings {
            commit_log_file_bytes: Some(1 << 20),
            min_free_bytes: Some(0),
            sync_flush: true,
            sync_flush_timeout_ms: i64::MAX / 4,
            ..Settings::default()
        };
        let store = Store::open(root.path(), settings, SystemClock::shared(), true).unwrap();
        let (pending, (peer, mut client)) = (Arc::<PendingAcks<_>>::default(), peer().await);
        let told = Arc::clone(&pending);
        let listener = move |tokens: &[Settled]| settled(&told, tokens);
        store.on_settled(Box::new(listener)).unwrap();
        let send = |letter| {
            let Put::Parked(_, ticket) = store.put(&request("T", b"x")) else {
                panic!("it waits for the flush");
            };
            let reply = Letter(Arc::clone(&peer), letter);
            if let Some((reply, outcome)) = pending.park(&store, ticket, reply) {
                let tokens = [Settled {
                    token: pending.add(reply),
                    outcome,
                }];
                settled(&pending, &tokens);
            }
        };
        for letters in [b"ab", b"cd", b"ef"] {
            send(Some(letters[0]));
            send(None);
            send(Some(letters[1]));
            let mut come = received(&mut client, 2).await;
            come.sort_unstable();
            assert_eq!(come, letters);
        }
        store.flush().unwrap();
        send(Some(b'g'));
        assert_eq!(received(&mut client, 1).await, b"g");
        assert_eq!((pending.count(), pending.lost()), (0, 3));
        assert_eq!((store.refusal(), store.failures().len()), (None, 0));
        store.close().unwrap();
    }
}
