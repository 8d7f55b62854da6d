//! A disk that is slow to create the log's next file: only sends wait for it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};

use crate::bounded_queue::Popped;
use crate::clients::peers::Peer;
use crate::core::Core;
use crate::dispatch::arrival;
use crate::limits::UNREAD_BYTES_MAX;
use crate::requests::context::Whole;
use crate::settings::Settings;
use crate::tables::GroupRow;
use crate::tables::TopicRow;
use crate::tables::broker_row::BrokerRow;
use mq_base::clock::SystemClock;
use mq_format::codes;
use mq_format::remoting::Frame;
use mq_net::connection::Connection;
use mq_store::testing::{SlowDisk, request};
use mq_store::{PutResult, PutStatus, Settings as StoreSettings, Store};

const PATIENCE: Duration = Duration::from_secs(60);
/// A request that does not use the disk takes less time than this.
const AT_ONCE: Duration = Duration::from_secs(2);
const FILE_BYTES: u64 = 64 << 10;

/// A broker of topic T without threads: the test itself does the work of the native side.
pub(crate) struct Fixture {
    pub(crate) core: Arc<Core>,
    pub(crate) store: Arc<Store>,
    pub(crate) peer: Arc<Peer>,
    /// The client's end of the connection.
    pub(crate) far: TcpStream,
    sent: i32,
}

async fn connection() -> (Arc<Peer>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    let connection = Connection::new(near.unwrap(), UNREAD_BYTES_MAX).unwrap();
    let peer = Peer::new(1, address, false, connection.0, 0);
    (Arc::new(peer), far.unwrap().0)
}

impl Fixture {
    pub(crate) async fn new(root: &Path) -> Self {
        let settings = StoreSettings {
            commit_log_file_bytes: Some(FILE_BYTES),
            allocate_step_bytes: FILE_BYTES,
            min_free_bytes: Some(0),
            ..StoreSettings::default()
        };
        let store = Store::open(root, settings, SystemClock::shared(), true).unwrap();
        let settings = Settings {
            families: vec![("send".into(), 100)],
            default_family: Some("send".into()),
            ..Settings::default()
        };
        let core = Core::new(settings, Some(Arc::clone(&store)), SystemClock::shared()).unwrap();
        let tables = &core.state.tables;
        tables.broker.publish(1, BrokerRow::default()).unwrap();
        let groups = vec![("G".to_owned(), Some(GroupRow::default()))];
        tables.groups.publish(1, groups, true).unwrap();
        let (peer, far) = connection().await;
        let fixture = Self {
            core,
            store,
            peer,
            far,
            sent: 0,
        };
        fixture.publish_topic(1, true);
        fixture
    }

    /// Stores a message in queue 1 of topic T. Waits for the first file of the log, which a worker
    /// would not do.
    pub(crate) fn store_first(&self) {
        let put = self.store.put(&request("T", b"first"));
        assert_eq!(self.store.wait(put).status, PutStatus::Ok);
        until("it is readable", || self.store.max_offset("T", 1) == 1);
    }

    /// Publishes topic T, or that it does not exist.
    pub(crate) fn publish_topic(&self, version: i64, exists: bool) {
        let row = exists.then(|| TopicRow::new("T", 6, (2, 2), false, false));
        let topics = &self.core.state.tables.topics;
        topics
            .publish(version, vec![("T".to_owned(), row)], true)
            .unwrap();
    }

    /// Connects as another client.
    pub(crate) async fn reconnect(&mut self) {
        (self.peer, self.far) = connection().await;
    }

    /// Returns the code of the reply, if the native side replies at once.
    fn ask(&mut self, code: i32, fields: &str, body: &[u8]) -> Option<i32> {
        self.sent += 1;
        let header = format!(
            r#"{{"code":{code},"flag":0,"language":"JAVA","opaque":{},"version":401,
            "extFields":{{{fields}}}}}"#,
            self.sent
        );
        let length = u32::try_from(header.len()).unwrap();
        let whole = length + 4 + u32::try_from(body.len()).unwrap();
        let words = [whole, length].map(u32::to_be_bytes).concat();
        let frame = [&words, header.as_bytes(), body].concat();
        let (mut out, began) = (Vec::new(), Instant::now());
        arrival::frame(&self.core, &self.peer, Whole::among(&frame), &mut out).unwrap();
        assert!(began.elapsed() < AT_ONCE, "the worker waits for the disk");
        (!out.is_empty()).then(|| Frame::decode(&out).unwrap().code)
    }

    pub(crate) fn send(&mut self, body: &[u8]) -> Option<i32> {
        let fields = r#""a":"P","b":"T","c":"TBW102","d":"4","e":"1","f":"0","g":"1","h":"0",
            "i":"","j":"0","k":"false","m":"false""#;
        self.ask(codes::SEND_MESSAGE_V2, fields, body)
    }

    pub(crate) fn pull(&mut self) -> Option<i32> {
        let fields = r#""consumerGroup":"G","topic":"T","queueId":"1","queueOffset":"0",
            "maxMsgNums":"1","sysFlag":"4","commitOffset":"0","subVersion":"0",
            "suspendTimeoutMillis":"0","subscription":"*""#;
        self.ask(codes::PULL_MESSAGE, fields, b"")
    }
}

pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "still not: {what}");
        thread::yield_now();
    }
}

#[tokio::test]
async fn only_sends_wait_for_a_missing_file() {
    let root = tempfile::tempdir().unwrap();
    let slow = SlowDisk::of_new_files(root.path());
    let mut fixture = Fixture::new(root.path()).await;
    fixture.store_first();
    slow.close();
    let body = vec![b'x'; 3_000];
    let mut stored = 1;
    while fixture.send(&body).is_some() {
        stored += 1;
    }
    // The send that was not stored, and the next one of the same topic and connection.
    assert_eq!(fixture.core.handoff.waiting().next(), Some(("send", 1)));
    assert_eq!(fixture.send(&body), None);
    assert_eq!(fixture.core.handoff.waiting().next(), Some(("send", 1)));
    assert_eq!(fixture.pull(), Some(0), "pulls go on");
    assert_eq!(fixture.store.max_offset("T", 1), stored);

    // A thread that may wait for the file waits, as RocketMQ's does.
    let Popped::Item(_job) = fixture.core.next_job(0, PATIENCE) else {
        panic!("Python gets the send");
    };
    let is_back = Arc::new(AtomicBool::new(false));
    let (store, told) = (Arc::clone(&fixture.store), Arc::clone(&is_back));
    let waiting = thread::spawn(move || {
        let body = vec![b'y'; 3_000];
        let put = store.put(&request("T", &body));
        told.store(true, Ordering::SeqCst);
        store.wait(put)
    });
    fixture.core.handoff.overload.set(300, None);
    until("it counts as a lock that is held", || {
        fixture.store.lock_held_ms() > 300
    });
    assert!(!is_back.load(Ordering::SeqCst));
    assert_eq!(fixture.send(&body), Some(2), "busy");
    assert_eq!(fixture.pull(), Some(0));
    slow.open();
    let PutResult {
        status,
        queue_offset,
        ..
    } = waiting.join().unwrap();
    assert_eq!((status, queue_offset), (PutStatus::Ok, stored));
    assert_eq!(fixture.store.lock_held_ms(), 0);
}
