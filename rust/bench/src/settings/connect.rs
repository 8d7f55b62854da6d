//! Settings of a run that connects.

use serde::{Deserialize, Serialize};

use super::{Load, check_name, in_range};
use crate::BenchError;

/// One host can open about 28,000 connections to one port; several brokers may be asked.
const CONNECTIONS_MAX: usize = 100_000;
const GROUPS_MAX: usize = 100_000;
const RATE_MAX: f64 = 1e6;

/// What a connection says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Nothing: it sends no heartbeats.
    Silent,
    /// A producer.
    #[default]
    Producer,
    /// A member of a consumer group; the broker tells all members when one joins.
    Consumer,
}

/// Settings of a connection storm.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Connect {
    /// The common part: the topic's brokers are connected to, `duration_s` is how long all
    /// connections are held, `threads` serve them all.
    pub load: Load,
    /// Connections to open.
    pub connections: usize,
    /// Connections to open per second; 0 opens all at once.
    pub rate: f64,
    /// What they say they are.
    pub role: Role,
    /// The group they are in; of several groups, the beginning of their names.
    pub group: String,
    /// Groups to spread them over.
    pub groups: usize,
    /// Time between a connection's heartbeats, seconds.
    pub heartbeat_s: f64,
}

impl Default for Connect {
    fn default() -> Self {
        Self {
            load: Load {
                threads: 2,
                ..Load::default()
            },
            connections: 1000,
            rate: 1000.0,
            role: Role::Producer,
            group: "mqclient_bench".to_owned(),
            groups: 1,
            heartbeat_s: 30.0,
        }
    }
}

impl Connect {
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        self.load.check()?;
        in_range("connections", self.connections, 1, CONNECTIONS_MAX)?;
        in_range("rate", self.rate, 0.0, RATE_MAX)?;
        in_range("groups", self.groups, 1, GROUPS_MAX)?;
        in_range("heartbeat_s", self.heartbeat_s, 0.01, 1e6)?;
        check_name("group", &self.group_name(0))
    }

    /// The name of the group of this connection.
    pub(crate) fn group_name(&self, connection: usize) -> String {
        if self.groups == 1 {
            return self.group.clone();
        }
        format!("{}-{:05}", self.group, connection % self.groups)
    }
}
