//! Memory of a consume queue's pending entries.

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::queue_buffer::{append, open};
use crate::derive::queues::queue::ConsumeQueue;
use crate::derive::queues::queue_buffer::KEPT_BYTES_MAX;
use crate::derive::queues::table::ConsumeQueues;
use mq_format::consume_queue::ENTRY_BYTES;

struct Rig {
    _root: TempDir,
    queues: ConsumeQueues,
    queue: Arc<ConsumeQueue>,
    next: i64,
}

impl Rig {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let path: &Path = root.path();
        let queues = open(path, 100_000, false);
        let queue = queues.for_record("T", 0).unwrap();
        Self {
            _root: root,
            queues,
            queue,
            next: 0,
        }
    }

    fn append(&mut self, entries: i64) {
        append(&self.queue, self.next..self.next + entries);
        self.next += entries;
        self.queues.publish(&[Arc::clone(&self.queue)]).unwrap();
    }

    fn capacity(&self) -> usize {
        self.queue.tail.lock().pending.capacity()
    }

    fn flush(&self) -> usize {
        self.queues.flush().unwrap();
        self.capacity()
    }
}

#[test]
fn memory_is_kept_after_a_flush_unless_far_too_large() {
    let mut rig = Rig::new();
    rig.append(70);
    let grown = rig.capacity();
    assert_eq!(rig.flush(), grown);
    rig.append(60);
    assert_eq!(rig.capacity(), grown, "the memory is reused");
    assert_eq!(rig.flush(), grown);
    rig.append(1);
    assert!(rig.flush() < grown, "kept for one unit");
}

#[test]
fn memory_is_kept_after_a_write_before_the_flush() {
    let mut rig = Rig::new();
    for entries in [70, (KEPT_BYTES_MAX / ENTRY_BYTES) as i64] {
        rig.append(entries);
        rig.queues.write_pending().unwrap();
        let grown = rig.capacity();
        assert_eq!(rig.flush(), grown, "after {entries} units");
    }
}

#[test]
fn memory_of_an_idle_queue_is_freed() {
    let mut rig = Rig::new();
    rig.append(1_000);
    assert!(rig.flush() >= 1_000 * ENTRY_BYTES, "while it may be needed");
    let idle = rig.flush();
    assert!(idle <= 1_024, "{idle} bytes kept for nothing");
}
