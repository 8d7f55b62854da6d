//! Settings of a run that reads.

use serde::Deserialize;

use super::{Load, check_name, in_range};
use crate::BenchError;

/// Largest number of groups of a run; three digits name them.
const GROUPS_MAX: usize = 1000;
/// Largest number of messages of a pull; brokers have a far lower limit.
const PULL_MAX: usize = 1 << 20;
const EXPRESSION_BYTES_MAX: usize = 1024;

/// Settings of a consume run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Consume {
    /// The common part; its threads count per broker and group.
    pub load: Load,
    /// The group named in the pulls; with several groups, the start of their names.
    pub group: String,
    /// Groups that each read everything; above 1 they are called `{group}-000` and so on.
    pub groups: usize,
    /// Messages asked for in a pull.
    pub pull_max: usize,
    /// The inline subscription: tags, or `*`.
    pub expression: String,
    /// Start again at the end of the backlog, until the time is over.
    pub repeat: bool,
    /// Start at the end and wait for new messages (long polling), until the time is over.
    pub tail: bool,
    /// Commit the group's offsets in the pulls, as members of a group do.
    pub commit: bool,
}

impl Default for Consume {
    fn default() -> Self {
        Self {
            load: Load::default(),
            group: "mqclient_bench".to_owned(),
            groups: 1,
            pull_max: 32,
            expression: "*".to_owned(),
            repeat: false,
            tail: false,
            commit: false,
        }
    }
}

impl Consume {
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        self.load.check()?;
        in_range("groups", self.groups, 1, GROUPS_MAX)?;
        in_range("pull_max", self.pull_max, 1, PULL_MAX)?;
        let expression = self.expression.len();
        in_range("bytes of expression", expression, 1, EXPRESSION_BYTES_MAX)?;
        check_name("group", &self.group_name(0))?;
        if self.tail && self.repeat {
            return Err(BenchError::Both("tail", "repeat"));
        }
        Ok(())
    }

    /// The name of the group with this number.
    pub(crate) fn group_name(&self, number: usize) -> String {
        if self.groups == 1 {
            return self.group.clone();
        }
        format!("{}-{number:03}", self.group)
    }

    /// Whether the run reads every message, so that a gap means a loss.
    pub(crate) fn takes_all(&self) -> bool {
        self.expression == "*"
    }
}
