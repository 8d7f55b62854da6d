//! Settings of a run.

mod connect;
mod consume;
mod latency;
mod produce;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::BenchError;
use super::tls::Tls;
use mq_client::credentials::Credentials;
use mq_format::remoting::{self, FieldValue, Head};

pub use connect::{Connect, Role};
pub use consume::Consume;
pub use latency::Latency;
pub use produce::Produce;

/// Threads, and connections that threads own, of one run.
pub(super) const WORKERS_MAX: usize = 4096;
/// Largest time of a setting, seconds: eleven days.
const SECONDS_MAX: f64 = 1e6;
/// Largest number of messages of a run; sending them would take years.
const COUNT_MAX: u64 = 1_000_000_000_000;
/// Topics of one run; six digits name them.
const TOPICS_MAX: usize = 100_000;
/// RocketMQ's limit on the length of a topic's name.
const NAME_BYTES_MAX: usize = 127;

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

/// Settings that all kinds of load have.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// "host:port" of NameServers, several by ';': the first that answers is asked.
    pub namesrv: String,
    /// Broker addresses to replace, for brokers behind NAT.
    pub address_map: BTreeMap<String, String>,
    /// The topic; of several topics, the beginning of their names.
    pub topic: String,
    /// Topics to spread the load over; above 1 they are called `{topic}-000000` and so on.
    pub topics: usize,
    /// Queues per broker of topics that the run creates; 0 leaves creation to the broker, or
    /// takes a client's usual 4 where the run has to create them.
    pub queues: i32,
    /// Threads, each with a connection of its own.
    pub threads: usize,
    /// Warm-up before counting, seconds.
    pub warmup_s: f64,
    /// Counted time, seconds.
    pub duration_s: f64,
    /// Stop after this many messages (warm-up included); 0 is no limit.
    pub count: u64,
    /// The serialisation of request headers.
    pub headers: Headers,
    /// A connection is closed when a reply takes longer than this, seconds.
    pub timeout_s: f64,
    /// The account that signs all requests; None leaves them unsigned.
    pub credentials: Option<Credentials>,
    /// TLS of all connections; None is without TLS.
    pub tls: Option<Tls>,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            namesrv: "127.0.0.1:9876".to_owned(),
            address_map: BTreeMap::new(),
            topic: "BenchmarkTest".to_owned(),
            topics: 1,
            queues: 0,
            threads: 1,
            warmup_s: 1.0,
            duration_s: 10.0,
            count: 0,
            headers: Headers::Json,
            timeout_s: 10.0,
            credentials: None,
            tls: None,
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

    /// The name of the topic with this number.
    pub(super) fn topic_name(&self, number: u32) -> String {
        if self.topics == 1 {
            return self.topic.clone();
        }
        format!("{}-{number:06}", self.topic)
    }

    /// Appends the whole frame of a request, signed if there is an account.
    pub(super) fn encode(
        &self,
        head: &Head<'_>,
        fields: &[(&str, FieldValue<'_>)],
        body: &[u8],
        out: &mut Vec<u8>,
    ) {
        match &self.credentials {
            Some(credentials) => credentials.encode(head, fields, body, out),
            None => head.encode(fields, body, out),
        }
    }

    fn check(&self) -> Result<(), BenchError> {
        in_range("threads", self.threads, 1, WORKERS_MAX)?;
        in_range("topics", self.topics, 1, TOPICS_MAX)?;
        in_range("queues", self.queues, 0, 65_535)?;
        in_range("count", self.count, 0, COUNT_MAX)?;
        in_range("warmup_s", self.warmup_s, 0.0, SECONDS_MAX)?;
        in_range("duration_s", self.duration_s, 0.0, SECONDS_MAX)?;
        in_range("timeout_s", self.timeout_s, 0.001, SECONDS_MAX)?;
        check_name("topic", &self.topic_name(0))
    }
}

/// Checks the name of a topic or group by RocketMQ's rule, which also excludes characters that JSON
/// escapes.
fn check_name(what: &'static str, name: &str) -> Result<(), BenchError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"%|-_".contains(&byte);
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(BenchError::Name {
        what,
        name: name.to_owned(),
    })
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
