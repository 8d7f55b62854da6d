//! Connections over real sockets.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::connect::connect;
use super::connection::{Connection, SendError};
use super::frame::FrameSplitter;
use super::receiver::Receiver;
use mq_format::remoting::HeaderLimits;

const DEADLINE: Duration = Duration::from_secs(60);
const OUTBOUND_LIMIT_BYTES: usize = 1 << 20;

async fn pair() -> (Arc<Connection>, Receiver, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (near, far) = tokio::join!(connect(&address, DEADLINE), listener.accept());
    let (near, receiver) = Connection::new(near.unwrap(), OUTBOUND_LIMIT_BYTES).unwrap();
    (near, receiver, far.unwrap().0)
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn the_system_limits_unsent_bytes() {
    let (near, _receiver, _far) = pair().await;
    let kept = || socket2::SockRef::from(near.stream()).tcp_notsent_lowat();
    near.keep_unsent(4_096);
    assert_eq!(kept().unwrap(), 4_096);
    near.keep_unsent(65_536);
    assert_eq!(kept().unwrap(), 65_536);
}

#[tokio::test]
async fn sends_of_many_threads_arrive_whole() {
    let (near, _receiver, mut far) = pair().await;
    let writer = tokio::spawn({
        let near = near.clone();
        async move { near.drive_writes().await }
    });
    let senders: Vec<_> = (0..4u8)
        .map(|fill| {
            let near = near.clone();
            std::thread::spawn(move || {
                for _ in 0..200 {
                    near.send(vec![fill; 1000]).unwrap();
                }
            })
        })
        .collect();
    let mut received = vec![0; 4 * 200 * 1000];
    timeout(DEADLINE, far.read_exact(&mut received))
        .await
        .unwrap()
        .unwrap();
    assert!(
        received
            .chunks(1000)
            .all(|piece| piece.iter().all(|byte| *byte == piece[0]))
    );
    senders
        .into_iter()
        .for_each(|sender| sender.join().unwrap());
    near.close();
    timeout(DEADLINE, writer).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_peer_that_does_not_read_fills_a_bounded_buffer() {
    let (near, _receiver, mut far) = pair().await;
    let (mut taken, piece) = (0, 64 * 1024);
    let full = loop {
        match near.send(vec![7; piece]) {
            Ok(()) => taken += piece,
            Err(error) => break error,
        }
    };
    assert!(matches!(
        full,
        SendError::Full {
            limit: OUTBOUND_LIMIT_BYTES,
            ..
        }
    ));
    assert!(near.queued_bytes() <= OUTBOUND_LIMIT_BYTES);

    let writer = tokio::spawn({
        let near = near.clone();
        async move { near.drive_writes().await }
    });
    let mut received = vec![0; taken];
    timeout(DEADLINE, far.read_exact(&mut received))
        .await
        .unwrap()
        .unwrap();
    assert!(received.iter().all(|byte| *byte == 7));
    near.close();
    assert_eq!(near.send(vec![1]), Err(SendError::Closed));
    timeout(DEADLINE, writer).await.unwrap().unwrap();
}

#[tokio::test]
async fn receiving_ends_when_either_side_closes() {
    let (_near, mut receiver, mut far) = pair().await;
    let mut splitter = FrameSplitter::new(100, HeaderLimits::NONE);
    let mut frames = Vec::new();
    let mut take = |frame: &[u8]| {
        frames.extend_from_slice(frame);
        Ok(())
    };
    far.write_all(b"\0\0\0\x04abcd").await.unwrap();
    let received = timeout(DEADLINE, receiver.receive(&mut splitter, &mut take)).await;
    assert_eq!(received.unwrap().unwrap(), 8);
    drop(far);
    let received = timeout(DEADLINE, receiver.receive(&mut splitter, &mut take)).await;
    assert_eq!(received.unwrap().unwrap(), 0);
    assert_eq!(frames, b"\0\0\0\x04abcd");

    let (near, mut receiver, _far) = pair().await;
    let waiting = tokio::spawn(async move {
        let mut splitter = FrameSplitter::new(100, HeaderLimits::NONE);
        receiver.receive(&mut splitter, |_| Ok(())).await
    });
    near.close();
    assert_eq!(
        timeout(DEADLINE, waiting).await.unwrap().unwrap().unwrap(),
        0
    );
}
