//! One send: a batch of messages of one topic, or a message that is sent alone.

use std::sync::Arc;

/// Consecutive rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first row, counted from the start of the task.
    pub first: u64,
    /// The number of rows.
    pub count: u64,
}

/// Format of the body of a send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Items of a batch.
    Batch,
    /// The body of one message; its flag and properties are in the header.
    Single {
        /// A number for the application.
        flag: i32,
        /// The properties in stored form.
        properties: String,
    },
}

/// The queue of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// The next queue in rotation.
    Any,
    /// The queue with this index, by the hash of a key. Only one such send is in progress at a
    /// time.
    Queue(usize),
}

/// The topic and placement that the rows of a send share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The topic's number.
    pub topic: usize,
    pub place: Place,
}

/// One send, encoded except for its header.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub key: Key,
    pub topic: Arc<str>,
    pub kind: Kind,
    pub body: Vec<u8>,
    /// The rows of the send, in order.
    pub rows: Vec<Run>,
    pub count: u64,
}

impl Outgoing {
    pub fn new(key: Key, topic: Arc<str>, kind: Kind) -> Self {
        Self {
            key,
            topic,
            kind,
            body: Vec::new(),
            rows: Vec::new(),
            count: 0,
        }
    }

    /// Records that the body also has this row.
    pub fn note(&mut self, row: u64) {
        self.count += 1;
        match self.rows.last_mut() {
            Some(run) if run.first + run.count == row => run.count += 1,
            _ => self.rows.push(Run {
                first: row,
                count: 1,
            }),
        }
    }

    /// Returns the first of its rows.
    pub fn first_row(&self) -> Option<u64> {
        self.rows.first().map(|run| run.first)
    }
}
