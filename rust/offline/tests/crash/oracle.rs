//! Records a store's promises, and checks whether a reopened store keeps them.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use mq_format::message::{CheckCrc, RecordView, sys_flag};
use mq_offline::Scan;
use mq_store::{PutStatus, Store};

use crate::rig::{Message, QUEUES, Stored, TOPICS, drain, put};

/// The error describes the fault; the test adds the image in which it occurred.
pub type Verdict<T = ()> = Result<T, String>;

/// Fails the check with a text unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}
pub(crate) use ensure;

/// A message that was put. Positions count the operations on the tape.
#[derive(Debug, Clone)]
pub struct Sent {
    pub message: Message,
    /// Its queue offset, if the put returned one.
    pub queue_offset: Option<i64>,
    /// Position when the put began.
    pub begun: usize,
    /// Position from which the message must survive a power loss.
    pub promised: Option<usize>,
}

/// One saved content of a state file.
#[derive(Debug, Clone)]
pub struct Saved {
    pub content: Vec<u8>,
    pub begun: usize,
    pub promised: usize,
}

/// All messages that were put, by key.
#[derive(Debug, Clone, Default)]
pub struct Oracle {
    pub sent: HashMap<String, Sent>,
    /// Contents of the state file, in the order in which they were saved.
    pub saved: Vec<Saved>,
}

/// Counts of an opened image.
#[derive(Debug, Default, Clone, Copy)]
pub struct Found {
    pub messages: usize,
    pub unpromised: usize,
    pub repaired: usize,
}

/// Name of the state file that workloads save.
pub const STATE: &str = "topics.json";

impl Oracle {
    /// Adds the messages of another oracle.
    pub fn merge(&mut self, other: Self) {
        self.sent.extend(other.sent);
        self.saved.extend(other.saved);
    }

    /// Marks everything sent so far as promised at `position`.
    pub fn promise_all(&mut self, position: usize) {
        for sent in self.sent.values_mut() {
            sent.promised.get_or_insert(position);
        }
    }

    /// The promises at `position`, for a new tape that starts there.
    pub fn seen_from(&self, position: usize) -> Self {
        let sent = |(key, sent): (&String, &Sent)| {
            let promised = sent.promised.filter(|promised| *promised <= position);
            let (begun, promised) = (0, promised.map(|_| 0));
            let message = sent.message.clone();
            let queue_offset = sent.queue_offset;
            let sent = Sent {
                message,
                queue_offset,
                begun,
                promised,
            };
            (key.clone(), sent)
        };
        let saved = |saved: &Saved| Saved {
            content: saved.content.clone(),
            begun: 0,
            promised: if saved.promised <= position {
                0
            } else {
                usize::MAX
            },
        };
        Self {
            sent: self.sent.iter().map(sent).collect(),
            saved: self.saved.iter().map(saved).collect(),
        }
    }

    /// Checks that all messages promised before `position` exist, and no message that was never
    /// put.
    pub fn check(&self, store: &Store, position: usize) -> Verdict<Found> {
        let mut found = Found::default();
        let mut keys = HashSet::new();
        for topic in TOPICS {
            for queue_id in 0..QUEUES {
                for stored in drain(store, topic, queue_id)? {
                    self.check_one(topic, queue_id, &stored, position)?;
                    found.unpromised += usize::from(!self.is_promised(&stored.key, position));
                    let is_new = keys.insert(stored.key.clone());
                    ensure!(is_new, "{} is there twice", stored.key);
                }
            }
        }
        found.messages = keys.len();
        for (key, sent) in &self.sent {
            let must_be = sent.message.is_queued() && self.is_promised(key, position);
            ensure!(!must_be || keys.contains(key), "{key} is lost: {sent:?}");
            ensure!(
                !must_be || is_indexed(store, &sent.message),
                "{key} is not in the index"
            );
        }
        self.check_state(store, position)?;
        Ok(found)
    }

    fn is_promised(&self, key: &str, position: usize) -> bool {
        let promised = self.sent.get(key).and_then(|sent| sent.promised);
        promised.is_some_and(|promised| promised <= position)
    }

    fn check_one(&self, topic: &str, queue_id: i32, stored: &Stored, position: usize) -> Verdict {
        let key = &stored.key;
        let sent = self.sent.get(key);
        let sent = sent.ok_or_else(|| format!("{key} in {topic}/{queue_id} was never put"))?;
        let message = &sent.message;
        ensure!(sent.begun <= position, "{key} was not yet put");
        ensure!(message.body == stored.body, "{key} has another body");
        ensure!(
            (message.topic, message.queue_id) == (topic, queue_id),
            "{key} is in {topic}/{queue_id}, it was put to {sent:?}"
        );
        ensure!(
            sent.queue_offset
                .is_none_or(|offset| offset == stored.queue_offset),
            "{key} is at {}, it was put at {:?}",
            stored.queue_offset,
            sent.queue_offset
        );
        Ok(())
    }

    fn check_state(&self, store: &Store, position: usize) -> Verdict {
        let content = store.load_state(STATE).map_err(|error| error.to_string())?;
        let promised = |saved: &&Saved| saved.promised <= position;
        let oldest = self.saved.iter().filter(promised).count();
        let Some(content) = content else {
            ensure!(oldest == 0, "the state file is lost");
            return Ok(());
        };
        let newest = self
            .saved
            .iter()
            .filter(|saved| saved.begun <= position)
            .count();
        let possible = &self.saved[oldest.saturating_sub(1)..newest];
        let is_known = possible.iter().any(|saved| saved.content == content);
        ensure!(is_known, "the state file holds {content:?}");
        Ok(())
    }
}

fn is_indexed(store: &Store, message: &Message) -> bool {
    let mut out = Vec::new();
    let found = store.query(message.topic, &message.key, 64, 0, i64::MAX, &mut out);
    found.message_count == 1
}

/// Puts a message to each queue and checks that it is the last of its queue and can be read.
pub fn check_appends(store: &Store) -> Verdict {
    for topic in TOPICS {
        for queue_id in 0..QUEUES {
            let (end, next) = (
                store.max_physical_offset(),
                store.max_offset(topic, queue_id),
            );
            let message = Message::new("after", topic, queue_id, b"after the crash".to_vec());
            let result = put(store, &message);
            ensure!(
                result.status == PutStatus::Ok,
                "{topic}/{queue_id}: {result:?}"
            );
            ensure!(
                result.physical_offset >= end && result.queue_offset >= next,
                "{topic}/{queue_id} had {next}, the log ended at {end}: {result:?}"
            );
            crate::rig::wait_readable(store, &result, topic, queue_id)?;
            let last = drain(store, topic, queue_id)?.pop();
            let is_last = last.is_some_and(|last| last.queue_offset == result.queue_offset);
            ensure!(is_last, "{topic}/{queue_id}: {result:?} cannot be read");
        }
    }
    Ok(())
}

/// Checks that the offline reader agrees about a closed store: no damage, and no message in the log
/// that was never put.
pub fn check_offline(root: &Path, oracle: &Oracle) -> Verdict {
    let text = |error: mq_store::StoreError| error.to_string();
    let scan = Scan::open(root).map_err(text)?;
    let report = scan.verify(&mut |_| true).map_err(text)?;
    ensure!(report.findings.is_empty(), "verify: {:?}", report.findings);
    let chunk = scan.records(0, usize::MAX, true).map_err(text)?;
    let mut rest = &chunk.bytes[..];
    while !rest.is_empty() {
        let record = RecordView::parse(rest, CheckCrc::Yes).map_err(|error| error.to_string())?;
        rest = &rest[record.size()..];
        if record.sys_flag & sys_flag::TRANSACTION_MASK == sys_flag::ROLLBACK {
            continue;
        }
        let key = crate::rig::key_of(&record);
        let is_known = key == "after" || oracle.sent.contains_key(&key);
        ensure!(is_known, "the log has {key}, which was never put");
    }
    Ok(())
}

/// The bytes of log, queues and index, which a second recovery must not change.
pub fn content(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for name in ["commitlog", "consumequeue", "index"] {
        collect(&root.join(name), &mut found);
    }
    found.sort();
    found
}

fn collect(path: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    let Ok(entries) = fs::read_dir(path) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(&path, found),
            false => found.push((path.display().to_string(), fs::read(&path).unwrap())),
        }
    }
}

/// Checks one image: recovery, promises, a second recovery, appends.
pub fn judge(
    root: &Path,
    oracle: &Oracle,
    position: usize,
    rig: &crate::rig::Rig,
) -> Verdict<Found> {
    let store = rig.try_open(root)?;
    let mut found = oracle.check(&store, position)?;
    found.repaired = repaired(&store);
    close(store)?;
    let before = content(root);
    // Make the store look as if it had been killed at once.
    fs::write(root.join("abort"), b"").unwrap();
    let store = rig.try_open(root)?;
    for (old, new) in before.iter().zip(content(root)) {
        ensure!(*old == new, "a second recovery changed {}", old.0);
    }
    ensure!(
        before.len() == content(root).len(),
        "a second recovery changed the files"
    );
    oracle.check(&store, position)?;
    check_appends(&store)?;
    close(store)?;
    check_offline(root, oracle)?;
    Ok(found)
}

fn repaired(store: &Store) -> usize {
    let figures = store.runtime();
    figures
        .get("repairedDamages")
        .map_or(0, |count| count.parse().unwrap())
}

pub fn close(store: Arc<Store>) -> Verdict {
    store.close().map_err(|error| format!("close: {error}"))
}
