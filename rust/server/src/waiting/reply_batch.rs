//! Replies that are written together, with one write for each connection.
//!
//! The flush thread writes them itself, because waking the task of a connection costs more than the
//! write. If there are many connections, their tasks write the replies, in parallel.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::clients::peers::Peer;
use mq_base::services;

/// With more connections than this, their tasks write the replies.
const WRITTEN_MAX: usize = 4;
/// Number of the latest connections that are searched for the one of a reply.
const LOOKED_AT_MAX: usize = 64;

/// Replies so far, by connection.
#[derive(Default)]
pub(crate) struct ReplyBatch {
    replies: Vec<Replies>,
    /// Number of replies that were lost to panics.
    lost: u64,
}

/// The replies of one connection.
struct Replies {
    peer: Arc<Peer>,
    frames: Vec<u8>,
    count: u64,
}

impl ReplyBatch {
    /// Adds the reply that `encode` appends. A panic in `encode` loses only this reply.
    pub(crate) fn add(&mut self, peer: &Arc<Peer>, encode: impl FnOnce(&mut Vec<u8>)) {
        let replies = self.replies_of(peer);
        let before = replies.frames.len();
        let frames = &mut replies.frames;
        match caught(|| encode(frames)) {
            true => replies.count += 1,
            false => {
                replies.frames.truncate(before);
                self.lost += 1;
            }
        }
    }

    fn replies_of(&mut self, peer: &Arc<Peer>) -> &mut Replies {
        let first = self.replies.len().saturating_sub(LOOKED_AT_MAX);
        let is_of_peer = |replies: &Replies| Arc::ptr_eq(&replies.peer, peer);
        let place = self.replies[first..].iter().rposition(is_of_peer);
        let place = place.map_or(self.replies.len(), |place| first + place);
        if place == self.replies.len() {
            self.replies.push(Replies {
                peer: Arc::clone(peer),
                frames: Vec::new(),
                count: 0,
            });
        }
        &mut self.replies[place]
    }

    /// Writes all replies; returns the number of replies that were lost to panics. A panic in a
    /// write loses only the replies of that connection.
    pub(crate) fn send(self) -> u64 {
        let is_few = self.replies.len() <= WRITTEN_MAX;
        let mut lost = self.lost;
        for Replies {
            peer,
            frames,
            count,
        } in self.replies
        {
            // A failed write means that the client is gone or will be closed.
            let send = || match is_few {
                true => peer.send(&frames),
                false => peer.send_soon(&frames),
            };
            if !caught(send) {
                lost += count;
            }
        }
        lost
    }
}

/// Runs `work`; false if it panicked, which is logged.
fn caught<T>(work: impl FnOnce() -> T) -> bool {
    let done = catch_unwind(AssertUnwindSafe(work));
    if let Err(panic) = &done {
        let reason = services::words(&**panic);
        tracing::error!(
            reason,
            "lost a reply that waited for a flush: encoding or writing it panicked"
        );
    }
    done.is_ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use super::*;
    use mq_net::connection::Connection;

    const DEADLINE: Duration = Duration::from_secs(60);

    pub(crate) async fn peer() -> (Arc<Peer>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (connection, _) = Connection::new(near.unwrap(), 1 << 20).unwrap();
        let peer = Arc::new(Peer::new(1, address, false, connection, 0));
        (peer, far.unwrap().0)
    }

    pub(crate) async fn received(client: &mut TcpStream, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let read = client.read_exact(&mut bytes);
        timeout(DEADLINE, read).await.unwrap().unwrap();
        bytes
    }

    fn add(batch: &mut ReplyBatch, peer: &Arc<Peer>, frame: &[u8]) {
        batch.add(peer, |out| out.extend_from_slice(frame));
    }

    #[tokio::test]
    async fn replies_of_a_connection_leave_together_after_the_last() {
        let (one, mut client) = peer().await;
        let (other, mut neighbour) = peer().await;
        let mut batch = ReplyBatch::default();
        for frame in [b"a", b"b", b"c"] {
            add(&mut batch, &one, frame);
            add(&mut batch, &other, b"-");
        }
        let mut none = [0];
        let error = client.try_read(&mut none).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        assert_eq!(batch.send(), 0);
        assert_eq!(received(&mut client, 3).await, b"abc");
        assert_eq!(received(&mut neighbour, 3).await, b"---");
    }

    #[tokio::test]
    async fn many_connections_are_left_to_their_tasks() {
        let mut peers = Vec::new();
        for _ in 0..=WRITTEN_MAX {
            peers.push(peer().await);
        }
        let mut batch = ReplyBatch::default();
        peers
            .iter()
            .for_each(|(peer, _)| add(&mut batch, peer, b"a"));
        assert_eq!(batch.send(), 0);
        for (peer, client) in &mut peers {
            assert_eq!(peer.outbound_bytes(), 1);
            while peer.outbound_bytes() > 0 {
                timeout(DEADLINE, peer.write_some()).await.unwrap();
            }
            assert_eq!(received(client, 1).await, b"a");
        }
    }

    #[tokio::test]
    async fn a_reply_that_panics_is_lost_alone() {
        let (peer, mut client) = peer().await;
        let mut batch = ReplyBatch::default();
        add(&mut batch, &peer, b"a");
        batch.add(&peer, |out| {
            out.extend_from_slice(b"half of a reply");
            panic!("of the reply");
        });
        add(&mut batch, &peer, b"b");
        assert_eq!(batch.send(), 1);
        assert_eq!(received(&mut client, 2).await, b"ab");
    }
}
