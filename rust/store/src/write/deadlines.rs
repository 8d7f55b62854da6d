//! The thread that settles puts at their deadlines: in every flush mode, and whatever watermark
//! they wait for. A flush or a listener that hangs does not hold it up.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::ack::Acks;
use mq_base::services::Services;

/// Name of the thread.
const THREAD: &str = "mq-deadlines";
/// Pause after a round that panicked.
const PANIC_PAUSE: Duration = Duration::from_millis(100);

/// The running thread. Dropping stops it.
pub(crate) struct DeadlineThread {
    acks: Arc<Acks>,
    thread: Option<JoinHandle<()>>,
}

impl DeadlineThread {
    /// Starts the thread.
    pub(crate) fn start(acks: &Arc<Acks>, services: &Arc<Services>) -> io::Result<Self> {
        acks.watch_deadlines();
        let (watched, services) = (Arc::clone(acks), Arc::clone(services));
        let run = move || {
            let round = || services.round(THREAD, || watched.expire_next());
            let pause = |_| {
                thread::sleep(PANIC_PAUSE);
                true
            };
            while round().unwrap_or_else(pause) {}
        };
        let thread = Some(thread::Builder::new().name(THREAD.into()).spawn(run)?);
        let acks = Arc::clone(acks);
        Ok(Self { acks, thread })
    }
}

impl Drop for DeadlineThread {
    fn drop(&mut self) {
        self.acks.unwatch_deadlines();
        if let Some(thread) = self.thread.take() {
            // The join cannot fail: `Services::round` catches panics.
            let _ = thread.join();
        }
    }
}
