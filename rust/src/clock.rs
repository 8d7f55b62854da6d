//! Wall and monotonic time behind one seam, so that tests decide what time it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Source of time: timeouts use `monotonic_ms`, stored timestamps use `wall_ms`.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch.
    fn wall_ms(&self) -> i64;
    /// Milliseconds since an arbitrary start; never goes back.
    fn monotonic_ms(&self) -> i64;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts at 0 now.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self {
            started: Instant::now(),
        })
    }
}

impl Clock for SystemClock {
    fn wall_ms(&self) -> i64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn monotonic_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

/// A wall time in the machine's time zone.
pub(crate) fn local_time(wall_ms: i64) -> libc::tm {
    let seconds: libc::time_t = wall_ms.div_euclid(1000);
    // SAFETY: an all-zero `tm` is a valid value of this plain C struct.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values of the right types.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut time) };
    time
}

/// A clock that only moves when told to.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicI64,
}

impl ManualClock {
    /// A clock showing `wall_ms` milliseconds since the epoch.
    pub fn at(wall_ms: i64) -> Arc<Self> {
        let clock = Self::default();
        clock.wall_ms.store(wall_ms, Ordering::SeqCst);
        Arc::new(clock)
    }

    /// Moves both clocks on by `by_ms` milliseconds.
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
