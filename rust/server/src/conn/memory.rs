//! Returns memory to the system after a flood of requests.
//!
//! The allocator keeps freed memory for later requests, in one arena per thread. After a flood
//! these are hundreds of megabytes that ordinary requests never need.

use std::fs;
use std::time::Duration;

use tokio::time::sleep;

/// Interval of the checks.
const LOOK: Duration = Duration::from_secs(5);
/// Growth since memory was last returned that triggers a return, bytes.
const GROWTH_BYTES: usize = 32 << 20;
/// Largest number of checks to skip after a return that gained little.
const PAUSE_LOOKS_MAX: u32 = 128;
/// A return of less than 1/10 of the memory gained little.
const LITTLE_PARTS: usize = 10;

/// Decides when memory is returned to the system.
#[derive(Debug, Default)]
struct Watch {
    /// Memory of the process after the last return, or at the first check, bytes.
    floor: Option<usize>,
    /// Checks to skip before the next return, and after the next return that gains little.
    wait: u32,
    pause: u32,
}

impl Watch {
    /// Whether a process that uses `bytes` should return memory now.
    fn is_due(&mut self, bytes: usize) -> bool {
        let floor = *self.floor.get_or_insert(bytes);
        self.wait = self.wait.saturating_sub(1);
        self.wait == 0 && bytes > floor.saturating_add(GROWTH_BYTES.max(floor / 2))
    }

    /// Records a return: `before` bytes became `after`.
    fn note(&mut self, before: usize, after: usize) {
        self.floor = Some(after);
        let is_little = before.saturating_sub(after) < before / LITTLE_PARTS;
        self.pause = match is_little {
            true => (self.pause * 2).clamp(1, PAUSE_LOOKS_MAX),
            false => 0,
        };
        self.wait = self.pause;
    }
}

/// Checks the memory of the process as long as the server lives.
pub(crate) async fn keep_low() {
    let mut watch = Watch::default();
    loop {
        let Some(before) = private_bytes() else {
            return; // not Linux
        };
        if watch.is_due(before) {
            // A return takes milliseconds, so it runs outside the worker threads.
            let given = tokio::task::spawn_blocking(give_back).await;
            watch.note(before, private_bytes().unwrap_or(before));
            tracing::debug!(?given, before, "returned memory to the system");
        }
        sleep(LOOK).await;
    }
}

/// Private memory of the process in bytes, without file pages.
fn private_bytes() -> Option<usize> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').skip(1).map(str::parse::<usize>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size())
}

#[cfg(target_env = "gnu")]
fn give_back() {
    // SAFETY: `malloc_trim` takes a number, and any thread may call it at any time.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn give_back() {}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn memory_is_returned_after_it_has_grown_by_much() {
        let mut watch = Watch::default();
        assert!(!watch.is_due(30 * MIB), "the first check sets the floor");
        assert!(!watch.is_due(62 * MIB));
        assert!(watch.is_due(63 * MIB));
        let mut large = Watch::default();
        assert!(!large.is_due(200 * MIB));
        assert!(!large.is_due(300 * MIB), "half more is not a flood");
        assert!(large.is_due(301 * MIB));
    }

    #[test]
    fn returns_that_gain_little_become_rarer() {
        let mut watch = Watch::default();
        watch.is_due(MIB);
        let mut bytes = 100 * MIB;
        let mut looks = Vec::new();
        for _ in 0..9 {
            let mut count = 1;
            while !watch.is_due(bytes) {
                count += 1;
            }
            looks.push(count);
            watch.note(bytes, bytes);
            bytes *= 2;
        }
        assert_eq!(looks, [1, 1, 2, 4, 8, 16, 32, 64, 128]);
        watch.note(bytes, MIB); // much was returned, so the next return has no pause
        assert!(watch.is_due(bytes));
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn freed_memory_is_returned_to_the_system() {
        let many: Vec<Vec<u8>> = (0..2_000).map(|_| vec![7; 64 << 10]).collect();
        let pins: Vec<_> = many.iter().map(|_| Box::new([1_u8; 64])).collect();
        let full = private_bytes().unwrap();
        drop(many);
        give_back();
        let after = private_bytes().unwrap();
        assert!(after + 100 * MIB < full, "{full} and then {after}");
        drop(pins);
    }
}
