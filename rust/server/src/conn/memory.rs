//! Gives memory back to the system that a flood of requests took and no longer needs.
//!
//! The allocator keeps what was freed for the next request, in an arena of each thread. After a
//! flood that is hundreds of megabytes, which no ordinary request ever needs again.

use std::fs;
use std::time::Duration;

use tokio::time::sleep;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(5);
/// The process may take this much more than after the last time it gave memory back, bytes.
const GROWTH_BYTES: usize = 32 << 20;
/// Looks that a return of memory waits for after one that gave back little, at most.
const PAUSE_LOOKS_MAX: u32 = 128;
/// A return of less than one part in this many of the memory is little.
const LITTLE_PARTS: usize = 10;

/// When memory is to be given back.
#[derive(Debug, Default)]
struct Watch {
    /// Bytes the process had after the last return, or at first.
    floor: Option<usize>,
    /// Looks to come before the next return, and after the next one that gives back little.
    wait: u32,
    pause: u32,
}

impl Watch {
    /// Whether a process that takes `bytes` is to give memory back now.
    fn is_due(&mut self, bytes: usize) -> bool {
        let floor = *self.floor.get_or_insert(bytes);
        self.wait = self.wait.saturating_sub(1);
        self.wait == 0 && bytes > floor.saturating_add(GROWTH_BYTES.max(floor / 2))
    }

    /// Memory was given back: `before` bytes became `after`.
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

/// Looks after the memory of the process for as long as the server lives.
pub(crate) async fn keep_low() {
    let mut watch = Watch::default();
    loop {
        let Some(before) = private_bytes() else {
            return; // not Linux
        };
        if watch.is_due(before) {
            // It takes milliseconds: no worker waits for it.
            let given = tokio::task::spawn_blocking(give_back).await;
            watch.note(before, private_bytes().unwrap_or(before));
            tracing::debug!(?given, before, "memory was given back to the system");
        }
        sleep(LOOK).await;
    }
}

/// Bytes of memory that belong to the process alone, files not counted.
fn private_bytes() -> Option<usize> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').skip(1).map(str::parse::<usize>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size())
}

#[cfg(target_env = "gnu")]
fn give_back() {
    // SAFETY: it takes a number, and may be called from any thread at any time.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn give_back() {}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn memory_is_given_back_once_it_has_grown_by_much() {
        let mut watch = Watch::default();
        assert!(!watch.is_due(30 * MIB), "the first look is the floor");
        assert!(!watch.is_due(62 * MIB));
        assert!(watch.is_due(63 * MIB));
        let mut large = Watch::default();
        assert!(!large.is_due(200 * MIB));
        assert!(!large.is_due(300 * MIB), "a half more is no flood");
        assert!(large.is_due(301 * MIB));
    }

    #[test]
    fn a_process_that_needs_its_memory_is_asked_less_and_less_often() {
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
        watch.note(bytes, MIB); // it gave much back: the next flood is met at once
        assert!(watch.is_due(bytes));
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn what_was_freed_goes_back_to_the_system() {
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
