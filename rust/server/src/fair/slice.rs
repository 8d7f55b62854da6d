//! Which thread gets a core first: one that serves in microseconds, or one that works for long.
//!
//! From 6.12 on Linux gives a core at once to a thread that wakes if its slice is shorter than that
//! of the thread that runs there, and lets each run for its share in the end. Older ones, and other
//! systems, have one slice for all. Only who works for long has another slice than the rest of the
//! machine: shorter ones for workers take the core from clients on it, whose next requests then
//! come one by one.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Duration;

/// Of who works for milliseconds: longer than what the system gives everybody (0.7 to 2.8 ms).
const PATIENT: Duration = Duration::from_millis(6);
/// What the system gives everybody.
const USUAL: Duration = Duration::ZERO;

thread_local! {
    static IS_PATIENT: Cell<bool> = const { Cell::new(false) };
}

/// Makes this thread one that lets others go first; asked again it does nothing.
pub(crate) fn patient() {
    if !IS_PATIENT.replace(true) {
        set(PATIENT);
    }
}

/// While it exists its thread lets others go first. It stays there.
pub(crate) struct LongWork(PhantomData<*const ()>);

impl LongWork {
    /// None if the thread always does, or nothing can be set.
    pub(crate) fn begin() -> Option<Self> {
        (!IS_PATIENT.get() && set(PATIENT)).then(|| Self(PhantomData))
    }
}

impl Drop for LongWork {
    fn drop(&mut self) {
        set(USUAL);
    }
}

/// Sets this thread's slice if it has one, as usual and batch threads have; whether it is set.
#[cfg(target_os = "linux")]
fn set(slice: Duration) -> bool {
    let Some(mut attributes) = attributes() else {
        return false;
    };
    attributes.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(0);
    let policy = i64::from(attributes.sched_policy);
    let has_slice = [libc::SCHED_OTHER, libc::SCHED_BATCH]
        .map(i64::from)
        .contains(&policy);
    // SAFETY: the system reads no more of the struct than its `size` says, which is all of it.
    has_slice && unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } == 0
}

/// How this thread is scheduled.
#[cfg(target_os = "linux")]
fn attributes() -> Option<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>();
    // SAFETY: all zeros are a valid value of this plain C struct.
    let mut found: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the system writes no more than `size` bytes, for which there is room.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, size, 0) };
    found.size = u32::try_from(size).ok()?;
    (got == 0).then_some(found)
}

#[cfg(not(target_os = "linux"))]
fn set(_slice: Duration) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// None from systems that know of no slices.
    fn slice() -> Option<Duration> {
        let nanoseconds = attributes()?.sched_runtime;
        (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds))
    }

    #[test]
    fn long_work_of_a_thread_like_any_other_is_patient() {
        let thread = std::thread::spawn(|| {
            let usual = slice();
            let work = LongWork::begin();
            assert_eq!(slice(), usual.and(Some(PATIENT)));
            drop(work);
            assert_eq!(slice(), usual);
        });
        thread.join().unwrap();
    }

    #[test]
    fn a_batch_thread_has_a_slice_and_stays_one() {
        let thread = std::thread::spawn(|| {
            // SAFETY: all zeros are a valid value of this plain C struct.
            let priority = unsafe { std::mem::zeroed() };
            // SAFETY: the system only reads the struct.
            let answer =
                unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const priority) };
            if answer != 0 {
                return; // a system that refuses it has no such threads
            }
            let usual = slice();
            patient();
            assert_eq!(slice(), usual.and(Some(PATIENT)));
            let policy = attributes().map(|found| i64::from(found.sched_policy));
            assert_eq!(policy, Some(i64::from(libc::SCHED_BATCH)));
        });
        thread.join().unwrap();
    }

    #[test]
    fn a_patient_thread_stays_one() {
        let thread = std::thread::spawn(|| {
            let usual = slice();
            for _ in 0..2 {
                patient();
                assert!(LongWork::begin().is_none());
                assert_eq!(slice(), usual.and(Some(PATIENT)));
            }
        });
        thread.join().unwrap();
    }
}
