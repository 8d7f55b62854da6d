//! A client with too many unread replies, and its requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::*;
use crate::bounded_queue::Popped;
use crate::dispatch::arrival;
use crate::limits::{
    PARKED_MAX, UNREAD_BYTES_MAX, UNREAD_BYTES_PAUSE, UNREAD_LOOK_MS, UNREAD_MS_MAX,
};
use crate::requests::context::Whole;
use crate::route::Family;
use crate::settings::{Kind, Settings};
use mq_base::clock::SystemClock;
use mq_net::connection::Connection;

const DEADLINE: Duration = Duration::from_secs(60);
const ALL: Family = 0;

struct Fixture {
    core: Arc<Core>,
    peer: Arc<Peer>,
    far: TcpStream,
}

impl Fixture {
    /// Creates a client with so many unread replies that its requests wait.
    async fn new() -> Self {
        let settings = Settings {
            kind: Kind::NameServer,
            families: vec![("all".to_owned(), 2 * PARKED_MAX)],
            routes: HashMap::from([(1, "all".to_owned())]),
            ..Settings::default()
        };
        let core = Core::new(settings, None, SystemClock::shared()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        let outbound_bytes = Arc::clone(&core.clients.peers.outbound_bytes);
        let connection =
            Connection::with_shared_count(near.unwrap(), UNREAD_BYTES_MAX, outbound_bytes);
        let (connection, _) = connection.unwrap();
        let peer = Arc::new(Peer::new(1, address, false, connection, 0));
        while peer.outbound_bytes() < UNREAD_BYTES_PAUSE {
            assert!(peer.send(&vec![0; 1 << 20]));
        }
        let far = far.unwrap().0;
        Self { core, peer, far }
    }

    fn ask(&self, opaque: u32) {
        let text = format!(r#"{{"code":1,"flag":0,"language":"JAVA","opaque":{opaque}}}"#);
        let length = u32::try_from(text.len()).unwrap();
        let words = [length + 4, length].map(u32::to_be_bytes).concat();
        let frame = [&words, text.as_bytes()].concat();
        arrival::frame(
            &self.core,
            &self.peer,
            Whole::among(&frame),
            &mut Vec::new(),
        )
        .unwrap();
    }

    /// Returns the number of the next request for Python, if there is one.
    fn next(&self) -> Option<i32> {
        match self.core.next_job(ALL, Duration::ZERO) {
            Popped::Item(job) => {
                let opaque = job.head.opaque;
                job.no_reply();
                Some(opaque)
            }
            _ => None,
        }
    }

    /// Reads until the server has no more bytes for the client.
    async fn read_all(&mut self) {
        let mut buffer = vec![0; 1 << 20];
        while self.peer.outbound_bytes() > 0 {
            tokio::select! {
                () = self.peer.write_some() => {}
                count = self.far.read(&mut buffer) => assert!(count.unwrap() > 0),
            }
        }
    }
}

#[tokio::test]
async fn requests_wait_until_their_client_has_read() {
    let mut fixture = Fixture::new().await;
    (0..3).for_each(|opaque| fixture.ask(opaque));
    assert_eq!(fixture.next(), None);
    assert_eq!(fixture.core.waiting.parked.count(), 3);
    assert_eq!(fixture.core.handoff.open(), 3, "a stop waits for them");
    give_back(&fixture.core, &fixture.peer);
    assert_eq!(fixture.core.waiting.parked.count(), 3, "it has not read");
    timeout(DEADLINE, fixture.read_all()).await.unwrap();
    give_back(&fixture.core, &fixture.peer);
    assert_eq!(fixture.core.waiting.parked.count(), 0);
    assert_eq!(
        [0; 4].map(|_| fixture.next()),
        [Some(0), Some(1), Some(2), None]
    );
    assert_eq!(fixture.core.handoff.open(), 0);
}

#[tokio::test]
async fn a_client_that_reads_just_before_parking_is_served() {
    let mut fixture = Fixture::new().await;
    fixture.ask(7);
    let Popped::Item(request) = fixture.core.handoff.pop(ALL, Duration::ZERO) else {
        panic!("it waits");
    };
    assert!(fixture.core.clients.peers.must_wait(&fixture.peer));
    timeout(DEADLINE, fixture.read_all()).await.unwrap();
    let waiting = Parked::Python(Box::new(request));
    park(&fixture.core, &fixture.peer, waiting);
    assert_eq!(fixture.next(), Some(7));
}

#[tokio::test]
async fn a_closed_connection_keeps_nothing() {
    let fixture = Fixture::new().await;
    (0..3).for_each(|opaque| fixture.ask(opaque));
    assert_eq!(fixture.next(), None);
    fixture.peer.closed();
    give_back(&fixture.core, &fixture.peer);
    assert_eq!(
        [0; 4].map(|_| fixture.next()),
        [Some(0), Some(1), Some(2), None]
    );
    assert_eq!(Arc::strong_count(&fixture.peer), 1);
    assert_eq!(Arc::strong_count(&fixture.core), 1);
    let all = &fixture.core.waiting.parked;
    assert_eq!((all.count(), all.bytes()), (0, 0));
}

#[tokio::test]
async fn too_many_requests_are_answered_busy() {
    let fixture = Fixture::new().await;
    let many = u32::try_from(PARKED_MAX).unwrap() + 5;
    (0..many).for_each(|opaque| fixture.ask(opaque));
    assert_eq!(fixture.next(), None);
    assert_eq!(fixture.core.waiting.parked.count(), PARKED_MAX);
    assert_eq!(fixture.core.stats.counters.overloaded.get(), 5);
    fixture.core.close();
    assert_eq!(
        fixture.core.handoff.open(),
        PARKED_MAX,
        "of no open connection"
    );
    fixture.peer.closed();
    give_back(&fixture.core, &fixture.peer);
    assert_eq!(fixture.core.handoff.open(), 0);
    assert_eq!(Arc::strong_count(&fixture.core), 1);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_closed_under_pressure() {
    let mut fixture = Fixture::new().await;
    let (core, peer) = (Arc::clone(&fixture.core), Arc::clone(&fixture.peer));
    core.clients.peers.insert(&peer);
    peer.note_taken(0);
    core.clients.peers.close_stalled(UNREAD_MS_MAX);
    assert!(!peer.is_closing(), "it may be slow");
    core.clients.peers.close_stalled(UNREAD_MS_MAX + 1);
    assert!(
        !peer.is_closing(),
        "the last check was less than a second ago"
    );
    core.clients
        .peers
        .close_stalled(UNREAD_MS_MAX + UNREAD_LOOK_MS);
    assert!(peer.is_closing() && peer.is_slow_reader());
    fixture.far.shutdown().await.unwrap();
}
