//! Replies that one flush releases: those of a connection are written together.
//!
//! The thread that flushed writes them itself: to wake the connection's task for it costs more than
//! the write. Only where they are for many clients the tasks do it, side by side.

use std::cell::RefCell;
use std::sync::Arc;

use crate::conn::peers::Peer;
use mq_store::after_replies;

/// More connections than these are left to their tasks.
const WRITTEN_MAX: usize = 4;
/// So many of the last connections are looked through for a reply's.
const LOOKED_AT_MAX: usize = 64;

thread_local! {
    /// What this thread's replies are so far, by connection.
    static GATHERED: RefCell<Vec<(Arc<Peer>, Vec<u8>)>> = const { RefCell::new(Vec::new()) };
}

/// Sends a reply that waited for a flush, with others that the same flush releases.
pub(crate) fn send(peer: &Arc<Peer>, frame: &[u8]) {
    let is_first = GATHERED.with_borrow_mut(|gathered| {
        let is_first = gathered.is_empty();
        let mut last = gathered.iter_mut().rev().take(LOOKED_AT_MAX);
        match last.find(|(other, _)| Arc::ptr_eq(other, peer)) {
            Some((_, frames)) => frames.extend_from_slice(frame),
            None => gathered.push((Arc::clone(peer), frame.to_vec())),
        }
        is_first
    });
    if is_first {
        after_replies(send_gathered);
    }
}

fn send_gathered() {
    let gathered = GATHERED.take();
    let is_few = gathered.len() <= WRITTEN_MAX;
    for (peer, frames) in gathered {
        // What is not taken was for a client that is gone, or is about to be.
        let _ = match is_few {
            true => peer.send(&frames),
            false => peer.send_soon(&frames),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use super::*;
    use mq_net::connection::Connection;
    use mq_store::testing::calling_replies;

    const DEADLINE: Duration = Duration::from_secs(60);

    async fn peer() -> (Arc<Peer>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (connection, _) = Connection::new(near.unwrap(), 1 << 20).unwrap();
        let peer = Arc::new(Peer::new(1, address, false, connection, 0));
        (peer, far.unwrap().0)
    }

    async fn received(client: &mut TcpStream, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let read = client.read_exact(&mut bytes);
        timeout(DEADLINE, read).await.unwrap().unwrap();
        bytes
    }

    #[tokio::test]
    async fn replies_of_a_connection_leave_together_behind_the_last() {
        let (one, mut client) = peer().await;
        let (other, mut neighbour) = peer().await;
        calling_replies(|| {
            for frame in [b"a", b"b", b"c"] {
                send(&one, frame);
                send(&other, b"-");
            }
            let mut none = [0];
            let error = client.try_read(&mut none).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        });
        assert_eq!(received(&mut client, 3).await, b"abc");
        assert_eq!(received(&mut neighbour, 3).await, b"---");
    }

    #[tokio::test]
    async fn many_connections_are_left_to_their_tasks() {
        let mut peers = Vec::new();
        for _ in 0..=WRITTEN_MAX {
            peers.push(peer().await);
        }
        calling_replies(|| peers.iter().for_each(|(peer, _)| send(peer, b"a")));
        for (peer, client) in &mut peers {
            assert_eq!(peer.owed(), 1);
            while peer.owed() > 0 {
                timeout(DEADLINE, peer.write_some()).await.unwrap();
            }
            assert_eq!(received(client, 1).await, b"a");
        }
    }

    #[tokio::test]
    async fn a_reply_by_itself_leaves_at_once() {
        let (peer, mut client) = peer().await;
        send(&peer, b"a");
        assert_eq!(received(&mut client, 1).await, b"a");
    }
}
