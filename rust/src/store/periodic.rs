//! A thread that does something every so often.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The running thread; dropping stops it, after the present round.
pub(crate) struct Periodic {
    stopped: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Periodic {
    /// Calls `work` every `every`, the first time after `every`.
    pub(crate) fn start(
        name: &str,
        every: Duration,
        mut work: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let stopped = Arc::new((Mutex::new(false), Condvar::new()));
        let seen = Arc::clone(&stopped);
        let run = move || {
            let (flag, changed) = &*seen;
            loop {
                let mut is_stopped = flag.lock();
                if !*is_stopped {
                    changed.wait_for(&mut is_stopped, every);
                }
                if *is_stopped {
                    return;
                }
                drop(is_stopped);
                work();
            }
        };
        let thread = Some(thread::Builder::new().name(name.into()).spawn(run)?);
        Ok(Self { stopped, thread })
    }
}

impl Drop for Periodic {
    fn drop(&mut self) {
        *self.stopped.0.lock() = true;
        self.stopped.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}
