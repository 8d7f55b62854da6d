//! Helpers for tests of other crates: a message to put, a disk that hangs, a store that waits.

use std::io;
use std::path::Path;
use std::sync::Arc;

use mq_log::testing::Gate;
use mq_log::{IoHook, Operation, Target, Watch, watch};

use crate::store::Store;
use crate::types::PutRequest;

/// A disk on which some operations block while its gate is closed.
#[derive(Debug)]
pub struct SlowDisk {
    gated: Arc<GatedHook>,
    _watch: Watch,
}

#[derive(Debug)]
struct GatedHook {
    gate: Gate,
    is_slow: fn(&Path, &Operation<'_>) -> bool,
}

impl SlowDisk {
    /// The disk of a store's root directory, with an open gate.
    pub fn under(root: &Path, is_slow: fn(&Path, &Operation<'_>) -> bool) -> Self {
        let gate = Gate::default();
        let gated = Arc::new(GatedHook { gate, is_slow });
        let _watch = watch(root, Arc::clone(&gated) as Arc<dyn IoHook>);
        Self { gated, _watch }
    }

    /// A disk that is slow to create log files.
    pub fn of_new_files(root: &Path) -> Self {
        Self::under(root, |path, operation| {
            let is_of_log = path.extension().is_some_and(|of| of == "new");
            is_of_log && matches!(operation, Operation::Create)
        })
    }

    /// Blocks slow operations from now on.
    pub fn close(&self) {
        self.gated.gate.close();
    }

    /// Releases all operations.
    pub fn open(&self) {
        self.gated.gate.open();
    }

    /// Number of blocked operations.
    pub fn waiting(&self) -> usize {
        self.gated.gate.waiting()
    }
}

impl IoHook for GatedHook {
    fn before(&self, target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64> {
        if (self.is_slow)(target.path, operation) {
            self.gate.pass();
        }
        Ok(0)
    }

    fn after(&self, _target: Target<'_>, _operation: &Operation<'_>, _began: u64) {}
}

/// Lets each append make its room in the log itself, so that none is declined while a thread does.
pub fn without_allocation(store: &Store) {
    if let Some(running) = &mut *store.running.lock() {
        running.allocator = None;
    }
}

/// A message for queue 1.
pub fn request<'a>(topic: &'a str, body: &'a [u8]) -> PutRequest<'a> {
    PutRequest {
        topic,
        queue_id: 1,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: 5,
        born_host: "127.0.0.1:50000".parse().unwrap(),
        store_host: "127.0.0.1:10911".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: b"TAGS\x01TagA",
        wait_store_ok: true,
        delay_level: 0,
        was_accepted: false,
    }
}

/// Log offset below which as many slaves as wanted have everything.
pub fn replicated_offset(store: &Store) -> u64 {
    store.puts.flusher.acks.watermarks.replicas.reached()
}
