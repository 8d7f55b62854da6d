//! A model of a queue that answers pulls as a broker does.

use std::collections::BTreeSet;
use std::time::Duration;

use mq_format::codes::{PULL_NOT_FOUND, PULL_OFFSET_MOVED, PULL_RETRY_IMMEDIATELY, SUCCESS};
use mq_format::message::{RecordView, Version, body_crc};

use crate::range::window::Reply;
use crate::range::{Limits, Plan, Subscription};

/// The queue id of all records here.
pub const QUEUE: i32 = 3;

/// Longer than any test takes.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A queue with the offsets from `first` to before `end`.
#[derive(Debug, Clone)]
pub struct Queue {
    pub first: i64,
    pub end: i64,
    /// Largest number of messages in one reply.
    pub gives: i64,
    /// Largest number of offsets that one reply covers.
    pub scans: i64,
    /// Only these offsets match, if there is a filter.
    pub matches: Option<BTreeSet<i64>>,
    pub damaged: BTreeSet<i64>,
    pub missing: BTreeSet<i64>,
}

impl Queue {
    /// A queue without faults.
    pub fn whole(first: i64, end: i64, gives: i64) -> Self {
        Self {
            first,
            end,
            gives,
            scans: i64::MAX,
            matches: None,
            damaged: BTreeSet::new(),
            missing: BTreeSet::new(),
        }
    }

    /// Whether a pull returns the message at `offset`.
    pub fn has(&self, offset: i64) -> bool {
        let matches = self
            .matches
            .as_ref()
            .is_none_or(|some| some.contains(&offset));
        (self.first..self.end).contains(&offset) && matches && !self.missing.contains(&offset)
    }

    pub fn pull(&self, offset: i64, count: i64) -> Reply {
        let empty = |code, next| Reply {
            code,
            next,
            body: Vec::new(),
        };
        if offset < self.first {
            return empty(PULL_OFFSET_MOVED, self.first);
        }
        if offset >= self.end {
            return empty(PULL_NOT_FOUND, offset);
        }
        let (mut next, mut given, mut body) = (offset, 0, Vec::new());
        while next < self.end && given < count.min(self.gives) && next - offset < self.scans {
            if self.has(next) {
                let start = body.len();
                body.extend(record(next));
                if self.damaged.contains(&next) {
                    body[start + 8] ^= 1;
                }
                given += 1;
            } else if self.matches.is_none() {
                given += 1; // a missing message counts too
            }
            next += 1;
        }
        let code = if body.is_empty() {
            PULL_RETRY_IMMEDIATELY
        } else {
            SUCCESS
        };
        Reply { code, next, body }
    }
}

/// The record at an offset.
pub fn record(offset: i64) -> Vec<u8> {
    let body = format!("body {offset}");
    let host = "127.0.0.1:1".parse().unwrap();
    let mut bytes = Vec::new();
    RecordView {
        version: Version::V1,
        body_crc: body_crc(body.as_bytes()),
        queue_id: QUEUE,
        flag: 0,
        queue_offset: offset,
        physical_offset: 0,
        sys_flag: 0,
        born_timestamp_ms: 0,
        born_host: host,
        store_timestamp_ms: 0,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: body.as_bytes(),
        topic: "T",
        properties: b"",
    }
    .encode(&mut bytes);
    bytes
}

/// A range of 500 messages.
pub fn plan(master: &str) -> Plan {
    Plan {
        master: Some(master.to_owned()),
        slave: None,
        broker_name: "broker-a".to_owned(),
        topic: "T".to_owned(),
        queue_id: QUEUE,
        first: 0,
        end: 500,
        group: "TOOLS_CONSUMER".to_owned(),
        subscription: Subscription::All,
        limits: Limits {
            count_max: 100,
            in_flight_max: 4,
            waiting_bytes_max: 1 << 20,
        },
        pull_timeout: DEADLINE,
        outage_budget: DEADLINE,
    }
}
