//! Settings of a run that connects.

use serde::{Deserialize, Serialize};

use super::{Load, check_name, in_range};
use crate::BenchError;

/// Largest number of connections. One host can open about 28,000 to one port of a broker.
const CONNECTIONS_MAX: usize = 100_000;
const GROUPS_MAX: usize = 100_000;
const RATE_MAX: f64 = 1e6;

/// The role in a connection's heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// No role: the connection sends no heartbeats.
    Silent,
    /// A producer.
    #[default]
    Producer,
    /// A member of a consumer group; the broker notifies all members when one joins.
    Consumer,
}

/// Settings of a connection storm.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Connect {
    /// The common part. The run connects to the topic's brokers and holds all connections for
    /// `duration_s`; `threads` threads serve them.
    pub load: Load,
    /// Connections to open.
    pub connections: usize,
    /// Connections to open per second; 0 opens all at once.
    pub rate: f64,
    /// The role in their heartbeats.
    pub role: Role,
    /// Their group; with several groups, the start of the groups' names.
    pub group: String,
    /// Number of groups over which the connections are spread.
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
