//! One send: a batch of messages of one topic, or a message that travels alone.

use std::sync::Arc;

/// Rows that follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first row, counted from the start of the task.
    pub first: u64,
    /// The number of rows.
    pub count: u64,
}

/// What the body of a send is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Items of a batch.
    Batch,
    /// The body of one message, whose flag and properties are in the header.
    Single {
        /// The application's number.
        flag: i32,
        /// As they are stored.
        properties: String,
    },
}

/// Which queue a send goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// The next one in turn.
    Any,
    /// This one of the topic's queues, by the hash of a key. Such sends follow one another.
    Queue(usize),
}

/// What the rows of a send have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The topic's number.
    pub topic: usize,
    pub place: Place,
}

/// One send, encoded but for its header.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub key: Key,
    pub topic: Arc<str>,
    pub kind: Kind,
    pub body: Vec<u8>,
    /// The rows in it, in order.
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

    /// Notes that the body has this row too.
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

    /// The first of its rows.
    pub fn first_row(&self) -> Option<u64> {
        self.rows.first().map(|run| run.first)
    }
}
