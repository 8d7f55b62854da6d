//! Whether the partition has room: looked up in the background, read by every put.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::statvfs;

/// `diskSpaceWarningLevelRatio`: a fuller partition takes no more messages.
const FULL_PERCENT: u64 = 90;

/// The partition of the store.
#[derive(Debug)]
pub(crate) struct Space {
    root: PathBuf,
    min_free_bytes: Option<u64>,
    is_full: AtomicBool,
    /// Why it counts as full.
    reason: Mutex<String>,
}

impl Space {
    /// Watches the partition of `root`: full when fewer than `min_free_bytes` are left, by
    /// RocketMQ's ratio when None. Nothing is known before the first [`Space::refresh`].
    pub(crate) fn new(root: &Path, min_free_bytes: Option<u64>) -> Self {
        Self {
            root: root.into(),
            min_free_bytes,
            is_full: AtomicBool::new(false),
            reason: Mutex::default(),
        }
    }

    /// Whether puts are refused.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Why puts are refused.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.is_full().then(|| self.reason.lock().clone())
    }

    /// The log could get no blocks: full until the next look.
    pub(crate) fn note_full(&self, error: &io::Error) {
        self.set(Some(format!("no blocks for the commit log: {error}")));
    }

    /// Looks at the partition.
    pub(crate) fn refresh(&self) {
        match statvfs(&self.root) {
            Ok(found) => {
                let used = (found.f_blocks - found.f_bfree) * found.f_frsize;
                self.set(self.judge(used, found.f_bavail * found.f_frsize));
            }
            Err(error) => tracing::warn!(%error, "free space of the store is unknown"),
        }
    }

    /// Bytes used of the partition, percent, rounded up; None if unknown.
    pub(crate) fn used_percent(&self) -> Option<u64> {
        let found = statvfs(&self.root).ok()?;
        Some(percent(found.f_blocks - found.f_bfree, found.f_bavail))
    }

    fn judge(&self, used_bytes: u64, free_bytes: u64) -> Option<String> {
        let root = self.root.display();
        match self.min_free_bytes {
            Some(min) => (free_bytes < min)
                .then(|| format!("{free_bytes} bytes are free at {root}, {min} are demanded")),
            None => {
                let used = percent(used_bytes, free_bytes);
                let text =
                    || format!("the disk of {root} is {used} % full, limit {FULL_PERCENT} %");
                (used > FULL_PERCENT).then(text)
            }
        }
    }

    fn set(&self, reason: Option<String>) {
        let is_full = reason.is_some();
        if let Some(reason) = reason {
            if !self.is_full() {
                tracing::error!("puts are refused: {reason}");
            }
            *self.reason.lock() = reason;
        }
        self.is_full.store(is_full, Ordering::Relaxed);
    }
}

fn percent(used: u64, free: u64) -> u64 {
    (used * 100).div_ceil((used + free).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fullness_is_judged_by_ratio_or_by_absolute_space() {
        let by_ratio = Space::new(Path::new("/"), None);
        assert_eq!(by_ratio.judge(90, 10), None);
        assert!(by_ratio.judge(901, 99).is_some());
        let by_bytes = Space::new(Path::new("/"), Some(50));
        assert_eq!(by_bytes.judge(1_000_000, 50), None);
        assert!(by_bytes.judge(0, 49).is_some());
    }

    #[test]
    fn a_failed_allocation_counts_until_the_next_look() {
        let space = Space::new(Path::new("/"), Some(0));
        space.note_full(&io::Error::from_raw_os_error(28));
        assert!(
            space
                .refusal()
                .is_some_and(|reason| reason.contains("No space left"))
        );
        space.refresh();
        assert_eq!(space.refusal(), None);
    }
}
