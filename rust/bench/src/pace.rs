//! When a run counts and when it ends; shared by its workers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::report::{Meter, Report};
use super::{BenchError, Load};

/// Interval at which a reader that waits for messages checks for the end of the run.
pub(super) const LOOK_UP: Duration = Duration::from_millis(20);

/// The clock and the budget of a run.
pub(super) struct Pace<'a> {
    begin: Instant,
    count_from: Instant,
    end: Instant,
    /// Requests that were due before the end may be sent until this time.
    give_up: Instant,
    /// Messages that remain in the budget.
    budget: AtomicU64,
    stop: &'a AtomicBool,
}

impl<'a> Pace<'a> {
    /// Starts the clock.
    pub fn start(load: &Load, stop: &'a AtomicBool) -> Self {
        let begin = Instant::now();
        let budget = if load.count == 0 {
            u64::MAX
        } else {
            load.count
        };
        let end = begin + load.whole();
        Self {
            begin,
            count_from: begin + load.warmup(),
            end,
            give_up: end + load.timeout(),
            budget: AtomicU64::new(budget),
            stop,
        }
    }

    /// Takes `messages` from the budget; false when it is used up.
    pub fn take(&self, messages: u64) -> bool {
        let left = |left: u64| match left {
            u64::MAX => Some(left),
            left => left.checked_sub(messages),
        };
        self.budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
            .is_ok()
    }

    /// Takes received messages from the budget.
    pub fn spend(&self, messages: u64) {
        if self.budget.load(Ordering::Relaxed) == u64::MAX {
            return;
        }
        let left = |left: u64| Some(left.saturating_sub(messages));
        // Never fails, as the closure always returns a value.
        let _ = self
            .budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
    }

    /// Whether time or budget is used up, or the run was stopped.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.end || self.budget.load(Ordering::Relaxed) == 0 || self.is_stopped()
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Time since counting began; None in the warm-up and after the end.
    pub fn counted(&self, now: Instant) -> Option<Duration> {
        (now < self.end)
            .then(|| now.checked_duration_since(self.count_from))
            .flatten()
    }

    /// Whether a request that was due at this time counts, whenever it is answered. An open loop
    /// counts so, because a stall at the end of the run must not hide the requests that waited in
    /// it.
    pub fn counts_due(&self, due: Instant) -> bool {
        self.count_from <= due && due < self.end
    }

    /// Counted time at `now`, which may be after the end.
    pub fn since_counting(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.count_from)
    }

    /// A time after the run began.
    pub fn at(&self, after: Duration) -> Instant {
        self.begin + after
    }

    /// Time since the run began.
    pub fn since_begin(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begin)
    }

    /// Adds up the workers' figures. Without a time limit counting ends with the last reply.
    /// Requests that were due in time and answered late make the counted time longer.
    pub fn report(&self, meters: impl IntoIterator<Item = Meter>) -> Report {
        let mut whole = Meter::new();
        meters.into_iter().for_each(|meter| whole.add(meter));
        let counted = Instant::now()
            .min(self.end)
            .saturating_duration_since(self.count_from);
        whole.report(counted)
    }
}

/// The next step of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Send the request that was due at this time.
    Now(Instant),
    /// Wait until this time.
    At(Instant),
    /// No request is left.
    Over,
}

/// A worker's share of the requests: as fast as possible, or each when it is due.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    /// Requests per second of this worker; 0 is as fast as possible.
    rate: f64,
    /// Time of the first request as a part of the interval, so that workers take turns.
    phase: f64,
    taken: u64,
}

impl Schedule {
    /// The share of worker `index` of `workers`, of `rate` requests per second together.
    pub fn new(rate: f64, index: usize, workers: usize) -> Self {
        Self {
            rate: rate / workers as f64,
            phase: index as f64 / workers as f64,
            taken: 0,
        }
    }

    /// Whether each request has a time at which it is due.
    pub fn is_open(&self) -> bool {
        self.rate > 0.0
    }

    /// What to do about the next request, of `messages` messages. `Now` counts it as taken.
    pub fn next(&mut self, pace: &Pace<'_>, now: Instant, messages: u64) -> Due {
        let due = if self.is_open() {
            self.due(pace)
        } else {
            Some(now)
        };
        match due {
            _ if pace.is_stopped() || now >= pace.give_up => Due::Over,
            Some(due) if due >= pace.end => Due::Over,
            Some(due) if due > now => Due::At(due),
            Some(due) if pace.take(messages) => {
                self.taken += 1;
                Due::Now(due)
            }
            _ => Due::Over,
        }
    }

    /// None for a time beyond the clock's range.
    fn due(&self, pace: &Pace<'_>) -> Option<Instant> {
        // A product, not a sum: an hour of small steps must not drift.
        let after = (self.taken as f64 + self.phase) / self.rate;
        let after = Duration::try_from_secs_f64(after).ok()?;
        pace.begin.checked_add(after)
    }

    /// Number of requests of `messages` messages that were due before the end (or before `now`, if
    /// the run was stopped) and were not taken.
    pub fn left(&self, pace: &Pace<'_>, now: Instant, messages: u64) -> u64 {
        let is_used_up = pace.budget.load(Ordering::Relaxed) < messages;
        if !self.is_open() || is_used_up || pace.is_stopped() {
            return 0;
        }
        let time = pace.since_begin(pace.end.min(now)).as_secs_f64();
        let due = (time * self.rate - self.phase).ceil().max(0.0) as u64;
        due.saturating_sub(self.taken)
    }
}

/// Checks that the process can start all threads of a load, so that no run starts with a part of
/// them.
pub(super) fn can_start(threads: usize) -> Result<(), BenchError> {
    mq_net::threads::can_start(threads).map_err(|cause| BenchError::Threads { threads, cause })
}

/// Runs one thread per worker and waits for all.
pub(super) fn run_workers<W: Send, R: Send>(
    workers: Vec<W>,
    run: impl Fn(W) -> R + Sync,
) -> Result<Vec<R>, BenchError> {
    can_start(workers.len())?;
    let run = &run;
    let run = |worker| {
        be_punctual();
        run(worker)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .map(|worker| scope.spawn(move || run(worker)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| BenchError::Worker))
            .collect()
    })
}

/// Asks the kernel for exact timers; by default it adds up to 50 µs to each wait.
pub(super) fn be_punctual() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_at_equal_steps_and_workers_take_turns() {
        let stop = AtomicBool::new(false);
        let load = Load {
            warmup_s: 1.0,
            duration_s: 1.0,
            ..Load::default()
        };
        let pace = Pace::start(&load, &stop);
        let after = |ms| pace.begin + Duration::from_millis(ms);
        let mut second = Schedule::new(10.0, 1, 2); // every 200 ms, beginning at 100 ms
        assert_eq!(second.next(&pace, after(0), 1), Due::At(after(100)));
        assert_eq!(second.next(&pace, after(350), 1), Due::Now(after(100)));
        assert_eq!(second.next(&pace, after(350), 1), Due::Now(after(300)));
        assert_eq!(second.next(&pace, after(350), 1), Due::At(after(500)));
        // A late schedule still returns the requests that were due in time, and no others.
        assert_eq!(second.left(&pace, after(9000), 1), 8);
        for _ in 0..8 {
            assert!(matches!(second.next(&pace, after(9000), 1), Due::Now(_)));
        }
        assert_eq!(second.next(&pace, after(9000), 1), Due::Over);
        assert_eq!(second.left(&pace, after(9000), 1), 0);
        assert!(!pace.counts_due(after(999)) && pace.counts_due(after(1000)));
        assert!(!pace.counts_due(after(2000)) && pace.counted(after(2000)).is_none());
    }

    #[test]
    fn the_budget_is_shared_and_a_stop_ends_all() {
        let stop = AtomicBool::new(false);
        let load = Load {
            count: 10,
            ..Load::default()
        };
        let pace = Pace::start(&load, &stop);
        let (mut one, mut other) = (Schedule::new(0.0, 0, 2), Schedule::new(0.0, 1, 2));
        let now = pace.begin;
        assert_eq!(one.next(&pace, now, 7), Due::Now(now));
        assert_eq!(other.next(&pace, now, 7), Due::Over);
        let open = Schedule::new(1e6, 0, 1);
        let later = now + Duration::from_secs(1);
        assert_eq!(
            (open.left(&pace, later, 7), open.left(&pace, later, 3)),
            (0, 1_000_000)
        );
        assert_eq!(other.next(&pace, now, 3), Due::Now(now));
        assert_eq!(one.next(&pace, now, 1), Due::Over);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(Schedule::new(1e6, 0, 1).next(&pace, now, 0), Due::Over);
    }
}
