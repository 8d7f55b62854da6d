//! Threads that must keep running while a store or a server is open.
//!
//! A panic would end such a thread silently, and its work would stop. Each round of the thread
//! therefore runs inside `Services::round`. A panic is logged and counted, and the service counts
//! as failing until one of its rounds succeeds.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Failures of one service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failures {
    /// Rounds that failed since the start.
    pub count: u64,
    /// Why the last round failed; None after a round succeeded.
    pub now: Option<String>,
}

/// The services of one owner, by the names of their threads.
#[derive(Debug, Default)]
pub struct Services {
    /// Whether any service fails now; if not, a good round needs no lock.
    is_any_failing: AtomicBool,
    failed: Mutex<BTreeMap<&'static str, Failures>>,
}

impl Services {
    /// Runs one round of a service. Err is the message of a panic; the caller decides whether to
    /// run another round.
    pub fn round<T>(&self, name: &'static str, work: impl FnOnce() -> T) -> Result<T, String> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(done) => {
                self.succeeded(name);
                Ok(done)
            }
            Err(panic) => {
                let reason = format!("panicked: {}", words(&*panic));
                self.failed(name, &reason);
                Err(reason)
            }
        }
    }

    /// Records a failed round.
    pub fn failed(&self, name: &'static str, reason: &str) {
        tracing::error!(service = name, reason, "a round of a service thread failed");
        let mut failed = self.failed.lock();
        let row = failed.entry(name).or_default();
        row.count += 1;
        row.now = Some(reason.to_owned());
        self.is_any_failing.store(true, Ordering::Release);
    }

    /// Records a good round.
    pub fn succeeded(&self, name: &'static str) {
        if !self.is_any_failing.load(Ordering::Acquire) {
            return;
        }
        let mut failed = self.failed.lock();
        if let Some(row) = failed.get_mut(name)
            && row.now.take().is_some()
        {
            tracing::info!(service = name, "a service thread recovered");
        }
        let is_any = failed.values().any(|row| row.now.is_some());
        self.is_any_failing.store(is_any, Ordering::Release);
    }

    /// Returns every service that has failed since the start.
    pub fn all(&self) -> BTreeMap<&'static str, Failures> {
        self.failed.lock().clone()
    }
}

/// The message of a panic.
pub fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let literal = || panic.downcast_ref::<&str>().copied();
    text.or_else(literal).unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_counted_and_a_good_round_clears_it() {
        let services = Services::default();
        assert_eq!(services.round("good", || 7), Ok(7));
        assert!(services.all().is_empty());
        let reason = services.round("bad", || panic!("at {}", 3)).unwrap_err();
        assert_eq!(reason, "panicked: at 3");
        services.round("good", || ()).unwrap();
        let row = |count, now: Option<&str>| Failures {
            count,
            now: now.map(str::to_owned),
        };
        assert_eq!(
            services.all()["bad"],
            row(1, Some("panicked: at 3")),
            "the good rounds of others change nothing"
        );
        services.round("bad", || ()).unwrap();
        assert_eq!(services.all()["bad"], row(1, None));
    }
}
