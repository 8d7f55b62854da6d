//! Connection storms: open many connections at a rate, send their heartbeats, hold them.

mod client;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use client::Client;

use super::brokers::brokers;
use super::pace::can_start;
use super::produce::refused_or_failed;
use super::report::{Meter, Report};
use super::route::Purpose;
use super::settings::Role;
use super::tls::Tls;
use super::{BenchError, Connect};
use mq_format::codes::HEART_BEAT;
use mq_format::remoting::Head;

/// File descriptors that the process needs besides connections.
const OTHER_FILES: u64 = 64;
/// Interval at which a run checks for its stop.
const LOOK_UP: Duration = Duration::from_millis(20);

/// The meaning of each count of a run's totals that makes the run a failed one.
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

/// An event of a connection; its task sends it to the collector.
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
    can_start(load.threads)?;
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
    // A run whose heartbeats are all refused is an error, even if its connections are open.
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

/// Sleeps; returns false if the run was stopped meanwhile.
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

/// Raises this process's soft limit on open files to the hard limit.
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

/// The heartbeat of a connection with this number, which it sends first and then at each interval.
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
