//! Pulls that need the disk, and the threads that may wait for it.

use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::fair::backpressure;
use crate::fair::slice;
use crate::handoff::SYSTEM_BUSY;
use crate::handoff::queue::Popped;
use crate::requests::pull::{ColdPull, PullTask, write};
use mq_format::remoting::Head;
use mq_store::ReadMode;

/// What the threads are called together.
const THREADS: &str = "mq-cold";

/// Body of a thread that may wait for the disk; ends when the queue is closed.
pub(crate) fn read_cold(core: &Arc<Core>) {
    let Some(store) = core.store.clone() else {
        return;
    };
    slice::patient();
    loop {
        match core.cold.pop(Duration::from_secs(3_600)) {
            Popped::Item(task) => {
                let peer = Arc::clone(&task.peer);
                if backpressure::must_wait(core, &peer) {
                    backpressure::park(core, &peer, backpressure::Request::Cold(task));
                    continue;
                }
                core.counters.cold_reads.one();
                let read = || {
                    let mut out = Vec::new();
                    task.answer(core, &store, ReadMode::Wait, &mut out);
                    write(core, &peer, &out);
                };
                if core.services.round(THREADS, read).is_err() {
                    // Its client would wait for an answer that no longer comes.
                    peer.close();
                }
            }
            Popped::Timeout => {}
            Popped::Closed => return,
        }
    }
}

/// Back to those threads.
pub(crate) fn give_back(core: &Core, task: ColdPull) {
    let (peer, mut out) = (Arc::clone(&task.peer), Vec::new());
    task.read_later(core, &mut out);
    write(core, &peer, &out);
}

/// Answers 2 instead.
pub(crate) fn refuse(core: &Core, task: &PullTask, remark: &str) {
    core.counters.overloaded.one();
    let mut out = Vec::new();
    Head::reply(task.to, SYSTEM_BUSY, Some(remark)).encode(&[], &[], &mut out);
    write(core, &task.peer, &out);
}

#[cfg(test)]
mod tests;
