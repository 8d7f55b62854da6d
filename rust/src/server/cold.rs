//! Pulls that need the disk, and the threads that may wait for it.

use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::handoff::SYSTEM_BUSY;
use super::parked;
use super::pull::{ColdPull, PullTask, write};
use super::queue::Popped;
use super::slice;
use crate::format::remoting::Head;
use crate::store::ReadMode;

/// What the threads are called together.
const THREADS: &str = "mq-cold";

/// Body of a thread that may wait for the disk; ends when the queue is closed.
pub(super) fn read_cold(core: &Arc<Core>) {
    let Some(store) = core.store.clone() else {
        return;
    };
    slice::patient();
    loop {
        match core.cold.pop(Duration::from_secs(3_600)) {
            Popped::Item(task) => {
                let peer = Arc::clone(&task.peer);
                if parked::must_wait(core, &peer) {
                    parked::park(core, &peer, parked::Request::Cold(task));
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
pub(super) fn give_back(core: &Core, task: ColdPull) {
    let (peer, mut out) = (Arc::clone(&task.peer), Vec::new());
    task.read_later(core, &mut out);
    write(core, &peer, &out);
}

/// Answers 2 instead.
pub(super) fn refuse(core: &Core, task: &PullTask, remark: &str) {
    core.counters.overloaded.one();
    let mut out = Vec::new();
    Head::reply(task.to, SYSTEM_BUSY, Some(remark)).encode(&[], &[], &mut out);
    write(core, &task.peer, &out);
}
