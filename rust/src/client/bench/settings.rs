//! What to load the broker with.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::BenchError;
use crate::format::remoting;

/// The header serialisation of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Headers {
    /// As clients do by default.
    #[default]
    Json,
    /// RocketMQ's binary header.
    Rocketmq,
}

impl From<Headers> for remoting::Serialize {
    fn from(headers: Headers) -> Self {
        match headers {
            Headers::Json => Self::Json,
            Headers::Rocketmq => Self::RocketMq,
        }
    }
}

/// What both kinds of load have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// "host:port" of a NameServer.
    pub namesrv: String,
    /// The topic.
    pub topic: String,
    /// Threads, each with a connection of its own.
    pub threads: usize,
    /// Load before anything is counted, seconds.
    pub warmup_s: f64,
    /// Counted time, seconds.
    pub duration_s: f64,
    /// Stop after so many messages (warm-up included); 0 is no limit.
    pub count: u64,
    /// The serialisation of request headers.
    pub headers: Headers,
    /// A request is given up, and the run with it, after this many seconds.
    pub timeout_s: f64,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            namesrv: "127.0.0.1:9876".to_owned(),
            topic: "BenchmarkTest".to_owned(),
            threads: 1,
            warmup_s: 1.0,
            duration_s: 10.0,
            count: 0,
            headers: Headers::Json,
            timeout_s: 10.0,
        }
    }
}

/// Settings of a produce run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Produce {
    /// The common part.
    pub load: Load,
    /// Requests in flight per thread; 1 is a synchronous send.
    pub in_flight: usize,
    /// Bytes of a message's body.
    pub body_bytes: usize,
    /// Messages in a request; above 1 it is a batch.
    pub batch: usize,
    /// TAGS of every message; empty for none.
    pub tag: String,
}

impl Default for Produce {
    fn default() -> Self {
        let load = Load::default();
        Self {
            load,
            in_flight: 1,
            body_bytes: 1024,
            batch: 1,
            tag: String::new(),
        }
    }
}

/// Settings of a consume run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Consume {
    /// The common part.
    pub load: Load,
    /// The group named in the pulls; nothing is committed for it.
    pub group: String,
    /// Messages asked for in a pull.
    pub pull_max: usize,
    /// The inline subscription: tags, or `*`.
    pub expression: String,
    /// Begin again at the end of the backlog, until the time is over.
    pub repeat: bool,
}

impl Default for Consume {
    fn default() -> Self {
        Self {
            load: Load::default(),
            group: "mqclient_bench".to_owned(),
            pull_max: 32,
            expression: "*".to_owned(),
            repeat: false,
        }
    }
}

impl Load {
    /// Time before counting begins.
    pub(super) fn warmup(&self) -> Duration {
        Duration::from_secs_f64(self.warmup_s)
    }

    /// Time from the first request to the last.
    pub(super) fn whole(&self) -> Duration {
        Duration::from_secs_f64(self.warmup_s + self.duration_s)
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_s)
    }

    fn check(&self) -> Result<(), BenchError> {
        in_range("threads", self.threads, 1, 4096)?;
        in_range("warmup_s", self.warmup_s, 0.0, 1e6)?;
        in_range("duration_s", self.duration_s, 0.0, 1e6)?;
        in_range("timeout_s", self.timeout_s, 0.001, 1e6)
    }
}

impl Produce {
    pub(super) fn check(&self) -> Result<(), BenchError> {
        self.load.check()?;
        in_range("in_flight", self.in_flight, 1, 1 << 20)?;
        in_range("batch", self.batch, 1, 1 << 20)?;
        in_range("body_bytes", self.body_bytes, 1, 4 << 20)?;
        in_range("bytes of a batch", self.body_bytes * self.batch, 1, 4 << 20)
    }
}

impl Consume {
    pub(super) fn check(&self) -> Result<(), BenchError> {
        self.load.check()?;
        in_range("pull_max", self.pull_max, 1, 1 << 20)
    }
}

fn in_range<T: PartialOrd + ToString>(
    name: &'static str,
    value: T,
    min: T,
    max: T,
) -> Result<(), BenchError> {
    if min <= value && value <= max {
        return Ok(());
    }
    let [value, min, max] = [value, min, max].map(|number| number.to_string());
    Err(BenchError::Setting {
        name,
        value,
        min,
        max,
    })
}
