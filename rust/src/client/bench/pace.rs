//! When a run counts and when it ends; shared by its workers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::report::{Meter, Report};
use super::{BenchError, Load};

/// The clock and the budget of a run.
pub(super) struct Pace<'a> {
    count_from: Instant,
    end: Instant,
    /// Messages that may still be asked for.
    budget: AtomicU64,
    stop: &'a AtomicBool,
}

impl<'a> Pace<'a> {
    /// Starts the clock.
    pub fn start(load: &Load, stop: &'a AtomicBool) -> Self {
        let now = Instant::now();
        let budget = if load.count == 0 {
            u64::MAX
        } else {
            load.count
        };
        Self {
            count_from: now + load.warmup(),
            end: now + load.whole(),
            budget: AtomicU64::new(budget),
            stop,
        }
    }

    /// Takes `messages` from the budget; false when time or budget is over.
    pub fn go_on(&self, now: Instant, messages: u64) -> bool {
        if now >= self.end || self.stop.load(Ordering::Relaxed) {
            return false;
        }
        let taken = self
            .budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                if left == u64::MAX {
                    Some(left)
                } else {
                    left.checked_sub(messages)
                }
            });
        taken.is_ok()
    }

    /// How long counting has been going on; None in the warm-up and after the end.
    pub fn counted(&self, now: Instant) -> Option<Duration> {
        (now < self.end)
            .then(|| now.checked_duration_since(self.count_from))
            .flatten()
    }

    /// Adds up the workers' figures. Without a limit on time, counting ends with the last reply.
    pub fn report(&self, meters: impl IntoIterator<Item = Meter>) -> Report {
        let mut whole = Meter::new();
        meters.into_iter().for_each(|meter| whole.add(meter));
        let counted = Instant::now()
            .min(self.end)
            .saturating_duration_since(self.count_from);
        whole.report(counted)
    }
}

/// Runs one thread per worker and waits for all; the first error wins.
pub(super) fn run_workers<W: Send>(
    workers: Vec<W>,
    run: impl Fn(W) -> Result<Meter, BenchError> + Sync,
) -> Result<Vec<Meter>, BenchError> {
    let run = &run;
    std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .map(|worker| scope.spawn(move || run(worker)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err(BenchError::Worker)))
            .collect()
    })
}
