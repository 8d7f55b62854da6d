//! Pulls that must read from the disk, and the threads that may wait for it.

use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::fair::backpressure::Waiting;
use crate::fair::share::must_wait;
use crate::handoff::queue::Popped;
use crate::requests::{dispatch, parking};
use mq_store::ReadMode;

/// Service name of the threads.
const THREADS: &str = "mq-cold";

/// Body of a thread that may wait for the disk; ends when the queue is closed.
pub(crate) fn read_cold(core: &Arc<Core>) {
    let Some(store) = core.store.clone() else {
        return;
    };
    loop {
        match core.cold.pop(Duration::from_secs(3_600)) {
            Popped::Item(task) => {
                let peer = Arc::clone(&task.peer);
                if must_wait(&core.peers, &peer) {
                    parking::park(core, &peer, Waiting::Cold(task));
                    continue;
                }
                core.counters.cold_reads.one();
                let read = || {
                    let mut out = Vec::new();
                    let pulled = task.answer(core, &store, ReadMode::Wait, &mut out);
                    dispatch::pulled(core, pulled, &mut out);
                    core.write(&peer, &out);
                };
                if core.services.round(THREADS, read).is_err() {
                    // The client would wait for a reply that never comes.
                    peer.close();
                }
            }
            Popped::Timeout => {}
            Popped::Closed => return,
        }
    }
}

#[cfg(test)]
mod tests;
