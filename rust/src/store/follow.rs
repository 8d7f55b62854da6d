//! When the dispatcher looks at the log again.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::signal::{Signal, Woken};
use crate::log::{Files, Segments};

/// While messages come this fast after each other, the dispatcher pauses between looks.
const BUSY: Duration = Duration::from_millis(1);
/// Waking a thread for every message costs more than the message: a busy dispatcher takes what
/// came in during a pause at once. RocketMQ pauses 1 ms, busy or not.
const PAUSE: Duration = Duration::from_micros(250);
/// More than this waits for no pause, bytes.
const BEHIND_BYTES: u64 = 256 << 10;

/// Waits for the log to grow beyond an offset and tells how far; after a stop, until the end is
/// reached, then None.
pub(super) fn readable_beyond<F: Files>(
    log: Arc<Segments<F>>,
    appended: Arc<Signal>,
) -> impl FnMut(u64) -> Option<u64> + Send + 'static {
    let mut last_look = None;
    move |offset| {
        let is_busy = last_look.is_some_and(|at: Instant| at.elapsed() < BUSY);
        if is_busy && log.max_offset() < offset + BEHIND_BYTES {
            thread::sleep(PAUSE);
        }
        let end = wait_beyond(offset, &log, &appended);
        last_look = Some(Instant::now());
        end
    }
}

fn wait_beyond<F: Files>(offset: u64, log: &Segments<F>, appended: &Signal) -> Option<u64> {
    loop {
        let end = log.max_offset();
        if end > offset {
            return Some(end);
        }
        if appended.wait(None, || log.max_offset() > offset) == Woken::Stop {
            let end = log.max_offset();
            return (end > offset).then_some(end);
        }
    }
}
