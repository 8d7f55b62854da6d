//! The slaves that acknowledge: how far enough of them have the log.
//!
//! RocketMQ keeps the highest acknowledgement that any slave ever sent (`push2SlaveMaxOffset`), and
//! never lowers it. Here each slave has its own, and takes it along when it leaves.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Which slaves a put waits for: RocketMQ's SYNC_MASTER.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlaveWait {
    /// `inSyncReplicas`: slaves that must have a message; 0 for ASYNC_MASTER.
    pub slaves: usize,
    /// `slaveTimeout`.
    pub timeout_ms: i64,
    /// `haSlaveFallbehindMax`: a put does not wait for slaves that are this far behind.
    pub fall_behind_max_bytes: u64,
}

/// Whether a put waits for slaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// No slave.
    No,
    /// Enough slaves, at most this long, milliseconds.
    AtMost(i64),
    /// There are too few slaves, or they are too far behind: SLAVE_NOT_AVAILABLE.
    Unavailable,
}

/// The acknowledgement of a slave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acked {
    /// It has everything below this log offset.
    pub(crate) offset: u64,
    /// It may be the old connection of a slave that has a new one, until it reports again. It
    /// settles no put meanwhile, because its slave would count twice.
    pub(crate) is_in_doubt: bool,
}

impl Acked {
    pub(crate) fn new(offset: u64) -> Self {
        Self {
            offset,
            is_in_doubt: false,
        }
    }
}

/// The acknowledgements of the connected slaves. Readers take no lock.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    /// The fields of [`SlaveWait`].
    wanted: AtomicUsize,
    timeout_ms: AtomicI64,
    fall_behind_max_bytes: AtomicU64,
    /// Slaves that have acknowledged something, which may be nothing but their start.
    connected: AtomicUsize,
    /// Log offset below which as many slaves as wanted have everything.
    reached: AtomicU64,
    /// The same, with slaves that are in doubt.
    claimed: AtomicU64,
    /// By number of the slave.
    acked: Mutex<BTreeMap<u64, Acked>>,
    next_number: AtomicU64,
}

impl Replicas {
    /// Log offset below which as many slaves as wanted have everything.
    pub(crate) fn reached(&self) -> u64 {
        self.reached.load(Ordering::Acquire)
    }

    /// Whether a put that ends at `end_offset` waits for slaves. Costs one atomic read under
    /// ASYNC_MASTER.
    pub(crate) fn wait_for(&self, end_offset: i64) -> Wait {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted == 0 {
            return Wait::No;
        }
        let claimed = self.claimed.load(Ordering::Acquire);
        let behind = end_offset.cast_unsigned().saturating_sub(claimed);
        let is_far = behind >= self.fall_behind_max_bytes.load(Ordering::Relaxed);
        match self.connected.load(Ordering::Acquire) < wanted || is_far {
            true => Wait::Unavailable,
            false => Wait::AtMost(self.timeout_ms.load(Ordering::Relaxed)),
        }
    }

    pub(crate) fn set(&self, wait: SlaveWait) {
        let acked = self.acked.lock();
        self.timeout_ms.store(wait.timeout_ms, Ordering::Relaxed);
        self.fall_behind_max_bytes
            .store(wait.fall_behind_max_bytes, Ordering::Relaxed);
        self.wanted.store(wait.slaves, Ordering::Relaxed);
        self.update(&acked);
    }

    /// Changes the acknowledgements of the slaves, by number of the slave.
    pub(crate) fn change(&self, change: impl FnOnce(&mut BTreeMap<u64, Acked>)) {
        let mut acked = self.acked.lock();
        change(&mut acked);
        self.update(&acked);
    }

    /// Whether puts wait for slaves.
    pub(crate) fn are_awaited(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// A number for another slave.
    pub(crate) fn new_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    fn update(&self, acked: &BTreeMap<u64, Acked>) {
        let wanted = self.wanted.load(Ordering::Relaxed).max(1);
        let sure = acked.values().filter(|one| !one.is_in_doubt);
        self.reached
            .store(reached_by(wanted, sure), Ordering::Release);
        let claimed = reached_by(wanted, acked.values());
        self.claimed.store(claimed, Ordering::Release);
        self.connected.store(acked.len(), Ordering::Release);
    }
}

/// Log offset below which as many of these slaves as wanted have everything.
fn reached_by<'a>(wanted: usize, acked: impl Iterator<Item = &'a Acked>) -> u64 {
    let mut offsets: Vec<u64> = acked.map(|one| one.offset).collect();
    offsets.sort_unstable_by(|one, other| other.cmp(one));
    offsets.get(wanted - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(slaves: usize) -> Replicas {
        let replicas = Replicas::default();
        replicas.set(SlaveWait {
            slaves,
            timeout_ms: 3_000,
            fall_behind_max_bytes: 1_000,
        });
        replicas
    }

    fn ack(replicas: &Replicas, number: u64, offset: u64) {
        replicas.change(|acked| {
            acked.insert(number, Acked::new(offset));
        });
    }

    #[test]
    fn nobody_waits_for_slaves_by_default() {
        let replicas = Replicas::default();
        assert_eq!(replicas.wait_for(100), Wait::No);
        ack(&replicas, 0, 7);
        assert_eq!((replicas.wait_for(100), replicas.reached()), (Wait::No, 7));
    }

    #[test]
    fn a_put_waits_only_for_slaves_that_are_near() {
        let replicas = replicas(1);
        assert_eq!(replicas.wait_for(1), Wait::Unavailable);
        ack(&replicas, 0, 50);
        assert_eq!(replicas.wait_for(1_049), Wait::AtMost(3_000));
        assert_eq!(replicas.wait_for(1_050), Wait::Unavailable);
        assert_eq!(replicas.wait_for(10), Wait::AtMost(3_000));
    }

    #[test]
    fn as_many_slaves_as_wanted_must_have_it() {
        let replicas = replicas(2);
        ack(&replicas, 0, 100);
        assert_eq!(
            (replicas.reached(), replicas.wait_for(1)),
            (0, Wait::Unavailable)
        );
        ack(&replicas, 1, 60);
        ack(&replicas, 2, 80);
        assert_eq!(replicas.reached(), 80);
    }

    #[test]
    fn a_slave_that_leaves_takes_its_acknowledgement_along() {
        let replicas = replicas(1);
        ack(&replicas, 0, 100);
        ack(&replicas, 1, 60);
        replicas.change(|acked| {
            acked.remove(&0);
        });
        assert_eq!(replicas.reached(), 60);
        replicas.change(BTreeMap::clear);
        assert_eq!(
            (replicas.reached(), replicas.wait_for(1)),
            (0, Wait::Unavailable)
        );
    }
}
