//! Free space of the partitions: measured in the background, checked by every put.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use parking_lot::Mutex;
use rustix::fs::statvfs;

use crate::settings::Cleaning;

const COMMIT_LOG: &str = "commitlog";
const CONSUME_QUEUE: &str = "consumequeue";
/// `diskMaxUsedSpaceRatio` is limited to this range, as in RocketMQ.
const MAX_USED_PERCENT: (u64, u64) = (10, 95);

/// Levels of disk usage, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// Enough free space.
    None,
    /// Expired files are deleted at any hour.
    High,
    /// The oldest files are deleted at any age.
    Forcible,
    /// Puts are refused, too.
    Full,
}

impl Pressure {
    const ALL: [Self; 4] = [Self::None, Self::High, Self::Forcible, Self::Full];
}

/// Used bytes of a partition, and free bytes for this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    pub used_bytes: u64,
    pub free_bytes: u64,
}

impl Usage {
    /// The usage of the partition that holds `path`.
    fn of(path: &Path) -> io::Result<Self> {
        let found = statvfs(path)?;
        Ok(Self {
            used_bytes: (found.f_blocks - found.f_bfree) * found.f_frsize,
            free_bytes: found.f_bavail * found.f_frsize,
        })
    }

    /// Used bytes in percent, rounded up.
    pub(crate) fn percent(self) -> u64 {
        (self.used_bytes * 100).div_ceil((self.used_bytes + self.free_bytes).max(1))
    }
}

/// The thresholds of the levels.
#[derive(Debug, Clone, Copy)]
enum Limits {
    /// RocketMQ's thresholds, percent of the partition.
    Ratio { max: u64, forcible: u64, full: u64 },
    /// Our threshold for a machine shared with other programs: bytes that must stay free.
    Free { min_bytes: u64 },
}

impl Limits {
    fn new(min_free_bytes: Option<u64>, cleaning: &Cleaning) -> Self {
        if let Some(min_bytes) = min_free_bytes {
            return Self::Free { min_bytes };
        }
        let (least, most) = MAX_USED_PERCENT;
        Self::Ratio {
            max: u64::from(cleaning.disk_max_used_percent).clamp(least, most),
            forcible: cleaning.disk_forcible_percent.into(),
            full: cleaning.disk_warning_percent.into(),
        }
    }

    fn judge(&self, usage: Usage) -> Pressure {
        let steps = match *self {
            Self::Ratio {
                max,
                forcible,
                full,
            } => [max, forcible, full].map(|limit| usage.percent() > limit),
            // Other programs fill such a disk, too. So delete files only shortly before puts would
            // be refused.
            Self::Free { min_bytes } => [
                false,
                usage.free_bytes < min_bytes.saturating_mul(2),
                usage.free_bytes < min_bytes,
            ],
        };
        let reached = steps.iter().rposition(|is_reached| *is_reached);
        reached.map_or(Pressure::None, |step| Pressure::ALL[step + 1])
    }

    fn reason(&self, usage: Usage, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Free { min_bytes } => {
                let free = usage.free_bytes;
                format!("{path} has {free} bytes free, but {min_bytes} are required")
            }
            Self::Ratio { full, .. } => {
                let used = usage.percent();
                format!("the disk of {path} is {used} % full, limit {full} %")
            }
        }
    }
}

/// The part of the store that waits for space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Waiting {
    /// Messages appended to the commit log.
    Log,
    /// Queues and index, which dispatch derives.
    Dispatch,
}

type Measure = Box<dyn Fn(&Path) -> io::Result<Usage> + Send + Sync>;

/// The store's partitions: commit log and consume queues may be on different ones.
pub(crate) struct Space {
    root: PathBuf,
    min_free_bytes: Option<u64>,
    limits: Mutex<Limits>,
    measure: Measure,
    pressure: AtomicU8,
    is_full: AtomicBool,
    /// Why the store counts as full.
    reason: Mutex<String>,
    /// Why a part of the store waits for space.
    held: Mutex<BTreeMap<Waiting, String>>,
}

impl Space {
    /// Like [`Space::with_ratios`], with RocketMQ's ratios.
    #[cfg(test)]
    pub(crate) fn new(root: &Path, min_free_bytes: Option<u64>) -> Self {
        Self::with_ratios(root, min_free_bytes, &Cleaning::default())
    }

    /// Watches the partitions of the store at `root`. They are full if fewer than `min_free_bytes`
    /// are free, or by the configured ratios if that is None. The first [`Space::refresh`]
    /// measures.
    pub(crate) fn with_ratios(
        root: &Path,
        min_free_bytes: Option<u64>,
        cleaning: &Cleaning,
    ) -> Self {
        Self {
            root: root.into(),
            min_free_bytes,
            limits: Mutex::new(Limits::new(min_free_bytes, cleaning)),
            measure: Box::new(Usage::of),
            pressure: AtomicU8::new(Pressure::None as u8),
            is_full: AtomicBool::new(false),
            reason: Mutex::default(),
            held: Mutex::default(),
        }
    }

    /// Changes the ratios from the next measurement on.
    pub(crate) fn set_ratios(&self, cleaning: &Cleaning) {
        *self.limits.lock() = Limits::new(self.min_free_bytes, cleaning);
    }

    /// Whether puts are refused.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Why puts are refused.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.is_full().then(|| self.reason.lock().clone())
    }

    /// The level that the last measurement found.
    pub(crate) fn pressure(&self) -> Pressure {
        Pressure::ALL[usize::from(self.pressure.load(Ordering::Relaxed))]
    }

    /// Notes that a write found the disk full. Puts are refused until the next measurement.
    pub(crate) fn note_full(&self, what: String) {
        self.set(Some(what));
    }

    /// Notes that a part of the store waits for space. Puts are refused until [`Space::release`].
    pub(crate) fn hold(&self, who: Waiting, what: String) {
        self.held.lock().insert(who, what.clone());
        self.set(Some(what));
    }

    /// Notes that the part has its space.
    pub(crate) fn release(&self, who: Waiting) {
        self.held.lock().remove(&who);
        self.refresh();
    }

    /// Why a part of the store waits for space; None if it does not.
    pub(crate) fn held_by(&self, who: Waiting) -> Option<String> {
        self.held.lock().get(&who).cloned()
    }

    /// Measures the partitions; the worse one counts. In RocketMQ, the consume queues' partition
    /// may reset the state after the log's partition was found full.
    pub(crate) fn refresh(&self) {
        let limits = *self.limits.lock();
        let mut worst = (Pressure::None, None);
        for (path, usage) in self.partitions() {
            match usage {
                Ok(usage) => {
                    let pressure = limits.judge(usage);
                    let refusal = (pressure == Pressure::Full).then(|| limits.reason(usage, &path));
                    if pressure > worst.0 {
                        worst = (pressure, refusal);
                    }
                }
                Err(error) => tracing::warn!(%error, path = %path.display(),
                    "cannot measure the free space of the store"),
            }
        }
        self.pressure.store(worst.0 as u8, Ordering::Relaxed);
        let held = self.held.lock().values().next().cloned();
        self.set(worst.1.or(held));
    }

    /// Used bytes of the commit log's and of the consume queues' partition, percent, rounded up;
    /// None if unknown.
    pub(crate) fn used_percent(&self) -> [Option<u64>; 2] {
        self.partitions()
            .map(|(_, usage)| usage.ok().map(Usage::percent))
    }

    fn partitions(&self) -> [(PathBuf, io::Result<Usage>); 2] {
        [COMMIT_LOG, CONSUME_QUEUE].map(|name| {
            let own = self.root.join(name);
            // A new store has no queues yet.
            let path = if own.exists() { own } else { self.root.clone() };
            let usage = (self.measure)(&path);
            (path, usage)
        })
    }

    fn set(&self, reason: Option<String>) {
        let is_full = reason.is_some();
        if let Some(reason) = reason {
            if !self.is_full() {
                tracing::error!("refusing puts: {reason}");
            }
            *self.reason.lock() = reason;
        }
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Replaces the measurement.
    #[cfg(test)]
    pub(crate) fn measured_by(
        mut self,
        measure: impl Fn(&Path) -> io::Result<Usage> + Send + Sync + 'static,
    ) -> Self {
        self.measure = Box::new(measure);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(used_bytes: u64, free_bytes: u64) -> Usage {
        Usage {
            used_bytes,
            free_bytes,
        }
    }

    #[test]
    fn pressure_rises_with_rocketmqs_ratios() {
        let limits = Limits::new(None, &Cleaning::default());
        let at = |used| limits.judge(usage(used, 1000 - used));
        assert_eq!([at(0), at(750)], [Pressure::None; 2]);
        // Rounded up: 75.1 % count as 76 %.
        assert_eq!([at(751), at(850)], [Pressure::High; 2]);
        assert_eq!([at(851), at(900)], [Pressure::Forcible; 2]);
        assert_eq!([at(901), at(1000)], [Pressure::Full; 2]);
        let cleaning = Cleaning {
            disk_max_used_percent: 1,
            ..Cleaning::default()
        };
        let clamped = Limits::new(None, &cleaning);
        assert_eq!(clamped.judge(usage(10, 90)), Pressure::None);
        assert_eq!(clamped.judge(usage(11, 89)), Pressure::High);
    }

    #[test]
    fn pressure_rises_with_bytes_that_must_stay_free() {
        let limits = Limits::new(Some(50), &Cleaning::default());
        let at = |free| limits.judge(usage(1_000_000, free));
        assert_eq!(at(100), Pressure::None);
        assert_eq!([at(99), at(50)], [Pressure::Forcible; 2]);
        assert_eq!(at(49), Pressure::Full);
        let unlimited = Limits::new(Some(0), &Cleaning::default());
        assert_eq!(unlimited.judge(usage(1, 0)), Pressure::None);
    }

    #[test]
    fn the_worse_of_two_partitions_counts() {
        let root = tempfile::tempdir().unwrap();
        for name in [COMMIT_LOG, CONSUME_QUEUE] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        let space = Space::new(root.path(), None).measured_by(|path| {
            let is_log = path.ends_with(COMMIT_LOG);
            Ok(if is_log { usage(95, 5) } else { usage(10, 90) })
        });
        assert_eq!(space.pressure(), Pressure::None, "before the first look");
        space.refresh();
        assert_eq!((space.pressure(), space.is_full()), (Pressure::Full, true));
        let refusal = space.refusal().unwrap();
        assert!(
            refusal.contains("commitlog is 95 % full, limit 90 %"),
            "{refusal}"
        );
        assert_eq!(space.used_percent(), [Some(95), Some(10)]);
        space.set_ratios(&Cleaning {
            disk_warning_percent: 95,
            ..Cleaning::default()
        });
        space.refresh();
        let now = (space.pressure(), space.refusal());
        assert_eq!(now, (Pressure::Forcible, None));
    }

    #[test]
    fn a_failed_allocation_counts_until_the_next_measurement() {
        let space = Space::new(Path::new("/"), Some(0));
        space.note_full("no blocks".into());
        assert_eq!(space.refusal(), Some("no blocks".into()));
        space.refresh();
        assert_eq!(space.refusal(), None);
    }

    #[test]
    fn a_part_that_waits_for_space_counts_until_released() {
        let space = Space::new(Path::new("/"), Some(0));
        space.hold(Waiting::Dispatch, "dispatch waits".into());
        space.hold(Waiting::Log, "the log waits".into());
        space.release(Waiting::Log);
        assert_eq!(space.refusal(), Some("dispatch waits".into()));
        space.refresh();
        assert_eq!(space.refusal(), Some("dispatch waits".into()));
        space.release(Waiting::Dispatch);
        assert_eq!(space.refusal(), None);
    }
}
