//! Pulls that must read from the disk, and the threads that may wait for it.

use std::sync::Arc;
use std::time::Duration;

use crate::bounded_queue::Popped;
use crate::core::Core;
use crate::dispatch::{backpressure, routing};
use crate::requests::pull;
use crate::waiting::backpressure::Parked;
use mq_store::ReadMode;

/// Service name of the threads.
const THREADS: &str = "mq-cold";

/// Body of a thread that may wait for the disk; ends when the queue is closed.
pub(crate) fn read_cold(core: &Arc<Core>) {
    let Some(store) = core.state.store.clone() else {
        return;
    };
    loop {
        match core.waiting.cold.pop(Duration::from_secs(3_600)) {
            Popped::Item(task) => {
                let peer = Arc::clone(&task.peer);
                if core.clients.peers.must_wait(&peer) {
                    backpressure::park(core, &peer, Parked::Cold(task));
                    continue;
                }
                core.stats.counters.cold_reads.one();
                let read = || {
                    let mut out = Vec::new();
                    let pulled = pull::answer(core, &store, *task, ReadMode::Wait, &mut out);
                    routing::pulled(core, pulled, &mut out);
                    core.clients.write(&peer, &out);
                };
                if core.stats.services.round(THREADS, read).is_err() {
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
