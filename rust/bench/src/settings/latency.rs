//! Settings of a run that sends and reads.

use serde::Deserialize;

use super::{Consume, Produce, WORKERS_MAX, in_range};
use crate::BenchError;

/// Settings of an end-to-end run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Latency {
    /// Settings of the senders.
    pub produce: Produce,
    /// Connections that read, per broker.
    pub readers: usize,
    /// The group named in the pulls; nothing is committed for it.
    pub group: String,
    /// Messages asked for in a pull.
    pub pull_max: usize,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            produce: Produce::default(),
            readers: 1,
            group: "mqclient_bench".to_owned(),
            pull_max: 32,
        }
    }
}

impl Latency {
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        self.produce.check_stamped()?;
        in_range("readers", self.readers, 1, WORKERS_MAX)?;
        self.consume().check()
    }

    /// Settings of the readers.
    pub(crate) fn consume(&self) -> Consume {
        let mut load = self.produce.load.clone();
        load.threads = self.readers;
        Consume {
            load,
            group: self.group.clone(),
            pull_max: self.pull_max,
            tail: true,
            ..Consume::default()
        }
    }
}
