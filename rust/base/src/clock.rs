//! Wall and monotonic time behind one trait, so that tests can set the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rustix::time::{ClockId, clock_gettime};

/// Source of time: timeouts use `monotonic_ms`, stored timestamps use `wall_ms`.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch.
    fn wall_ms(&self) -> i64;
    /// Milliseconds since an arbitrary start; never goes back.
    fn monotonic_ms(&self) -> i64;
    /// Like `monotonic_ms`, but up to some milliseconds late and cheaper, for frequent calls.
    fn rough_monotonic_ms(&self) -> i64 {
        self.monotonic_ms()
    }
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    started_ms: i64,
}

impl SystemClock {
    /// A clock whose monotonic time starts at 0 now.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self {
            started_ms: now_ms(ClockId::Monotonic),
        })
    }
}

impl Clock for SystemClock {
    fn wall_ms(&self) -> i64 {
        now_ms(ClockId::Realtime)
    }

    fn monotonic_ms(&self) -> i64 {
        now_ms(ClockId::Monotonic) - self.started_ms
    }

    fn rough_monotonic_ms(&self) -> i64 {
        // The time of the last timer interrupt, which may be before the start.
        (now_ms(ClockId::MonotonicCoarse) - self.started_ms).max(0)
    }
}

#[inline]
fn now_ms(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}

/// The wall clock was set if it moved by this much more or less than the monotonic clock.
const STEP_MS: i64 = 1_000;

/// Notices that an operator or a time service set the wall clock.
#[derive(Debug)]
pub struct StepWatch {
    /// Wall time minus monotonic time, at the last check.
    ahead_ms: i64,
}

/// A step of the wall clock, milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The time that the clock would show without the step.
    pub from_ms: i64,
    /// The time that the clock shows.
    pub to_ms: i64,
}

impl StepWatch {
    /// Takes the first reading.
    pub fn new(clock: &dyn Clock) -> Self {
        let ahead_ms = clock.wall_ms() - clock.monotonic_ms();
        Self { ahead_ms }
    }

    /// Returns the step since the last call. A clock that is slewed makes none.
    pub fn look(&mut self, clock: &dyn Clock) -> Option<Step> {
        let (now_ms, to_ms) = (clock.monotonic_ms(), clock.wall_ms());
        let from_ms = self.ahead_ms + now_ms;
        self.ahead_ms = to_ms - now_ms;
        ((to_ms - from_ms).abs() >= STEP_MS).then_some(Step { from_ms, to_ms })
    }
}

/// Formats a wall time for the log: `2026-11-27 05:13:37.123` in the machine's time zone.
pub fn shown(wall_ms: i64) -> String {
    let time = local_time(wall_ms);
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03}",
        i64::from(time.tm_year) + 1900,
        time.tm_mon + 1,
        time.tm_mday,
        time.tm_hour,
        time.tm_min,
        time.tm_sec,
        wall_ms.rem_euclid(1000)
    )
}

/// Converts a wall time to the machine's time zone.
pub fn local_time(wall_ms: i64) -> libc::tm {
    let seconds: libc::time_t = wall_ms.div_euclid(1000);
    // SAFETY: an all-zero `tm` is a valid value of this plain C struct.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values of the right types.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut time) };
    time
}

/// A clock that moves only when a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicI64,
}

impl ManualClock {
    /// Creates a clock that shows `wall_ms` milliseconds since the epoch.
    pub fn at(wall_ms: i64) -> Arc<Self> {
        let clock = Self::default();
        clock.wall_ms.store(wall_ms, Ordering::SeqCst);
        Arc::new(clock)
    }

    /// Advances both clocks by `by_ms` milliseconds.
    pub fn advance(&self, by_ms: i64) {
        self.wall_ms.fetch_add(by_ms, Ordering::SeqCst);
        self.monotonic_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// Sets the wall clock alone, as an operator or NTP would.
    pub fn set_wall(&self, wall_ms: i64) {
        self.wall_ms.store(wall_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn monotonic_ms(&self) -> i64 {
        self.monotonic_ms.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_step_is_reported_once_with_both_times() {
        let clock = ManualClock::at(10_000);
        let mut watch = StepWatch::new(&*clock);
        clock.advance(500);
        assert_eq!(watch.look(&*clock), None);
        clock.advance(500);
        clock.set_wall(3_611_000);
        let forward = Step {
            from_ms: 11_000,
            to_ms: 3_611_000,
        };
        assert_eq!(watch.look(&*clock), Some(forward));
        clock.set_wall(1_000);
        let back = Step {
            from_ms: 3_611_000,
            to_ms: 1_000,
        };
        assert_eq!(watch.look(&*clock), Some(back));
        clock.set_wall(1_999);
        assert_eq!((watch.look(&*clock), watch.look(&*clock)), (None, None));
        assert!(shown(1_999).ends_with("1.999"), "{}", shown(1_999));
    }

    #[test]
    fn the_system_clock_shows_the_time() {
        let clock = SystemClock::shared();
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let off_ms = clock.wall_ms() - epoch.as_millis() as i64;
        assert!((0..5_000).contains(&off_ms), "{off_ms}");
        std::thread::sleep(Duration::from_millis(30));
        let rough_ms = clock.rough_monotonic_ms();
        let exact_ms = clock.monotonic_ms();
        assert!(
            exact_ms >= 30 && rough_ms <= exact_ms,
            "{rough_ms} {exact_ms}"
        );
        assert!(rough_ms > 0, "{exact_ms}");
    }
}
