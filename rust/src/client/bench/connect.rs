//! Connection storms: open many connections at a rate, say who they are, hold them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::produce::refused_or_failed;
use super::report::{Meter, Report};
use super::route::{Purpose, brokers};
use super::secured::Tls;
use super::settings::Role;
use super::{BenchError, Connect};
use crate::format::remoting::{Frame, Head};
use crate::net::connect::{ConnectError, connect};
use crate::net::connection::Connection;
use crate::net::frame::FrameSplitter;
use crate::net::receiver::Receiver;
use crate::net::tls;

const HEART_BEAT: i32 = 34;
/// A heartbeat's reply, or a notice that a group has changed; more would be no broker's.
const FRAME_BYTES_MAX: usize = 64 * 1024;
/// What may wait to be written on a connection: heartbeats are written whole.
const WAITING_BYTES_MAX: usize = 64 * 1024;
/// Files that the process has open besides.
const OTHER_FILES: u64 = 64;
/// How often the run looks whether it is stopped.
const LOOK_UP: Duration = Duration::from_millis(20);

/// What each bad count of a run's totals means.
const MEANINGS: [(&str, &str); 2] = [
    (
        "unsent",
        "connections were not tried: the run was over before their turn",
    ),
    (
        "dropped",
        "connections were closed by the broker while they were held",
    ),
];

/// What happened to a connection; a task tells the collector.
enum Event {
    Connected { took: Duration, at: Instant },
    Heartbeat { took: Duration },
    Refused { code: i32, remark: String },
    Failed(BenchError),
    Dropped(BenchError),
}

pub(super) fn run(settings: &Connect, stop: &AtomicBool) -> Result<Report, BenchError> {
    let load = &settings.load;
    allow_files(settings.connections)?;
    let tls = load.tls.as_ref().map(Tls::shared).transpose()?;
    let brokers = brokers(load, Purpose::Write, &mut Vec::new())?;
    let address = |index: usize| brokers[index % brokers.len()].address.clone();
    let no_runtime = |cause| BenchError::Io {
        address: "this process".to_owned(),
        cause,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(load.threads)
        .enable_all()
        .build()
        .map_err(no_runtime)?;
    let (events, mut happened) = mpsc::unbounded_channel(); // a few per connection
    let (held, over) = watch::channel(());
    let begin = Instant::now();
    let mut opened = 0;
    super::pace::be_punctual();
    while opened < settings.connections && wait_until(begin + due(settings, opened), stop) {
        let client = Client {
            address: address(opened),
            heartbeat: heartbeat(settings, opened).into(),
            due: begin + due(settings, opened),
            every: Duration::from_secs_f64(settings.heartbeat_s),
            timeout: load.timeout(),
            tls: tls.clone(),
            events: events.clone(),
        };
        runtime.spawn(client.live(over.clone()));
        opened += 1;
    }
    drop((events, over));
    let mut storm = Storm::new(begin, opened);
    storm.settle(&mut happened, stop, load.timeout());
    let hold_until = Instant::now() + Duration::from_secs_f64(load.duration_s);
    wait_until(hold_until, stop);
    drop(held); // every task ends
    while let Some(event) = happened.blocking_recv() {
        storm.take(event);
    }
    let (report, failure) = storm.report(settings);
    // Connections that may say nothing are none.
    let all_refused = !report.refused.is_empty() && report.total("heartbeats") == 0;
    if report.total("connected") == 0 || all_refused {
        refused_or_failed(&report, &brokers, failure)?;
    }
    Ok(report)
}

/// When a connection is due.
fn due(settings: &Connect, index: usize) -> Duration {
    if settings.rate == 0.0 {
        return Duration::ZERO;
    }
    Duration::from_secs_f64(index as f64 / settings.rate)
}

/// Sleeps; false if the run was stopped meanwhile.
fn wait_until(time: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = time.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK_UP));
    }
}

/// Raises this process's limit of open files as far as it may.
fn allow_files(connections: usize) -> Result<(), BenchError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = connections as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|_| BenchError::OpenFiles {
        connections,
        needed,
        allowed: limit.maximum.unwrap_or(u64::MAX),
    })
}

/// The request that a connection of this number sends first and then every so often.
fn heartbeat(settings: &Connect, index: usize) -> Vec<u8> {
    let group = settings.group_name(index);
    let client = format!("127.0.0.1@mqclient_bench_{}#{index}", std::process::id());
    let topic = settings.load.topic_name(0);
    let (producers, consumers) = match settings.role {
        Role::Silent => return Vec::new(),
        Role::Producer => (format!(r#"{{"groupName":"{group}"}}"#), String::new()),
        Role::Consumer => (String::new(), consumer_data(&group, &topic)),
    };
    let (producers, consumers) = (
        format!(r#""producerDataSet":[{producers}]"#),
        format!(r#""consumerDataSet":[{consumers}]"#),
    );
    let body = format!(r#"{{"clientID":"{client}",{consumers},{producers}}}"#);
    let mut frame = Vec::new();
    let head = Head::request(HEART_BEAT, index as i32, settings.load.headers.into());
    settings
        .load
        .encode(&head, &[], body.as_bytes(), &mut frame);
    frame
}

/// RocketMQ's ConsumerData of a clustering push consumer of the topic.
fn consumer_data(group: &str, topic: &str) -> String {
    let subscription = [
        r#"{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*""#,
        &format!(r#""subVersion":1,"tagsSet":[],"topic":"{topic}"}}"#),
    ];
    let fields = [
        r#"{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY""#,
        &format!(r#""groupName":"{group}","messageModel":"CLUSTERING""#),
        &format!(r#""subscriptionDataSet":[{}]"#, subscription.join(",")),
        r#""unitMode":false}"#,
    ];
    fields.join(",")
}

/// One connection.
struct Client {
    address: String,
    /// Empty for none.
    heartbeat: Arc<[u8]>,
    due: Instant,
    every: Duration,
    timeout: Duration,
    /// None is plain.
    tls: Option<Arc<ClientConfig>>,
    events: mpsc::UnboundedSender<Event>,
}

impl Client {
    /// Connects, and is held until `over` ends.
    async fn live(self, mut over: watch::Receiver<()>) {
        let mut line = match self.open().await {
            Ok(line) => line,
            Err(cause) => return self.tell(Event::Failed(self.io_error(cause))),
        };
        let now = Instant::now();
        let took = now.saturating_duration_since(self.due);
        self.tell(Event::Connected { took, at: now });
        let connection = Arc::clone(&line.connection);
        tokio::select! {
            _ = over.changed() => {}
            () = connection.drive_writes() => {
                let cause = io::ErrorKind::BrokenPipe.into();
                self.tell(Event::Dropped(self.io_error(cause)));
            }
            cause = self.hold(&mut line) => self.tell(Event::Dropped(self.io_error(cause))),
        }
        connection.close();
    }

    async fn open(&self) -> io::Result<Line> {
        let begin = Instant::now();
        let stream = connect(&self.address, self.timeout).await;
        let stream = stream.map_err(cause_of)?;
        let (connection, receiver) = match &self.tls {
            None => Connection::new(stream, WAITING_BYTES_MAX)?,
            Some(config) => {
                let left = self.timeout.saturating_sub(begin.elapsed());
                let session = tls::connect(&stream, &self.address, Arc::clone(config), left).await;
                let session = session.map_err(cause_of)?;
                Connection::with_session(stream, WAITING_BYTES_MAX, session)?
            }
        };
        Ok(Line {
            connection,
            receiver,
            splitter: FrameSplitter::new(FRAME_BYTES_MAX),
        })
    }

    /// Sends heartbeats and reads what comes; returns why that ended.
    async fn hold(&self, line: &mut Line) -> io::Error {
        loop {
            let beat = match self.beat(line).await {
                Ok(()) => sleep(self.every),
                Err(cause) => return cause,
            };
            let ended = tokio::select! {
                () = beat => continue,
                ended = line.ignore() => ended,
            };
            return ended;
        }
    }

    /// One heartbeat and its reply.
    async fn beat(&self, line: &mut Line) -> io::Result<()> {
        if self.heartbeat.is_empty() {
            return Ok(());
        }
        let begin = Instant::now();
        let sent = line.connection.send_slice(&self.heartbeat);
        sent.map_err(io::Error::other)?;
        loop {
            let bytes = timeout(self.timeout, line.read_frame()).await;
            let bytes = bytes.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            let frame = Frame::decode(&bytes).map_err(io::Error::other)?;
            if !frame.is_response() {
                continue; // the broker tells that the group has changed
            }
            let event = match frame.code {
                0 => Event::Heartbeat {
                    took: begin.elapsed(),
                },
                code => Event::Refused {
                    code,
                    remark: frame.remark.unwrap_or_default().into_owned(),
                },
            };
            self.tell(event);
            return Ok(());
        }
    }

    fn tell(&self, event: Event) {
        // The collector outlives all tasks, unless the run has failed: then nobody asks.
        let _ = self.events.send(event);
    }

    fn io_error(&self, cause: io::Error) -> BenchError {
        BenchError::Io {
            address: self.address.clone(),
            cause,
        }
    }
}

/// The two sides of a connection, and what was received; it keeps no buffer while it waits.
struct Line {
    connection: Arc<Connection>,
    receiver: Receiver,
    splitter: FrameSplitter,
}

impl Line {
    /// The next frame; may be dropped at any time.
    async fn read_frame(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(frame) = self.splitter.next_frame().map_err(io::Error::other)? {
                return Ok(frame.to_vec());
            }
            if self.receiver.receive(&mut self.splitter).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads what the broker says unasked, until the connection ends.
    async fn ignore(&mut self) -> io::Error {
        loop {
            if let Err(cause) = self.read_frame().await {
                return cause;
            }
        }
    }
}

/// A failure's cause, without the address that is said beside it.
fn cause_of(error: ConnectError) -> io::Error {
    match error {
        ConnectError::Failed { cause, .. } => cause,
        ConnectError::Timeout { .. } => io::ErrorKind::TimedOut.into(),
        ConnectError::Tls { cause, .. } => io::Error::other(format!("no TLS: {cause}")),
    }
}

/// Adds up the events.
struct Storm {
    begin: Instant,
    opened: usize,
    /// Connections that are up or have failed.
    settled: usize,
    last_at: Instant,
    meter: Meter,
    failure: Option<BenchError>,
}

impl Storm {
    fn new(begin: Instant, opened: usize) -> Self {
        Self {
            begin,
            opened,
            settled: 0,
            last_at: begin,
            meter: Meter::new(),
            failure: None,
        }
    }

    /// Takes events until every connection is up or has failed.
    fn settle(
        &mut self,
        happened: &mut mpsc::UnboundedReceiver<Event>,
        stop: &AtomicBool,
        patience: Duration,
    ) {
        let until = Instant::now() + patience + LOOK_UP;
        while self.settled < self.opened && Instant::now() < until {
            match happened.try_recv() {
                Ok(event) => self.take(event),
                Err(_) if !wait_until(Instant::now() + Duration::from_millis(1), stop) => return,
                Err(_) => {}
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Connected { took, at } => {
                self.settled += 1;
                self.last_at = self.last_at.max(at);
                self.meter.total("connected", 1);
                self.meter
                    .count(at.saturating_duration_since(self.begin), took, 1, 0);
            }
            Event::Heartbeat { took } => {
                self.meter.total("heartbeats", 1);
                self.meter.note("heartbeat_us", took);
            }
            Event::Refused { code, remark } => self.meter.refuse(code, &remark),
            Event::Failed(error) => {
                self.settled += 1;
                self.meter.total("failed", 1);
                self.fail(error);
            }
            Event::Dropped(error) => {
                self.meter.total("dropped", 1);
                self.fail(error);
            }
        }
    }

    fn fail(&mut self, error: BenchError) {
        self.meter.fail(&error);
        self.failure.get_or_insert(error);
    }

    fn report(mut self, settings: &Connect) -> (Report, Option<BenchError>) {
        self.meter.total("tried", self.opened as u64);
        let untried = settings.connections - self.opened;
        self.meter.total("unsent", untried as u64);
        let mut report = self.meter.report(self.last_at - self.begin);
        report.offered_per_second = settings.rate;
        report.complain(&MEANINGS);
        (report, self.failure)
    }
}
