//! [`Bell`] wakes the threads that send the log to slaves.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// A thread with a [`Hold`] wakes the waiting threads once for this many rings. With 64 sends in
/// flight, the slave takes one part of them while the next part is appended.
const RINGS_PER_WAKE: usize = 16;

thread_local! {
    /// Rings of this thread since it last woke the waiting threads; None while it has no [`Hold`].
    static HELD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Any number of threads wait for the log to grow. A ring costs one atomic read while none waits.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    sleepers: AtomicUsize,
    state: Mutex<()>,
    rung: Condvar,
}

impl Bell {
    /// Wakes all waiting threads. The caller has announced its news, and has taken or released a
    /// lock since then.
    pub(crate) fn ring(&self) {
        match HELD.get() {
            Some(held) if held + 1 < RINGS_PER_WAKE => HELD.set(Some(held + 1)),
            held => {
                HELD.set(held.map(|_| 0));
                self.ring_now();
            }
        }
    }

    /// Until the result is dropped, not every ring of this thread wakes the waiting threads.
    pub(crate) fn hold(&self) -> Hold<'_> {
        HELD.set(Some(0));
        Hold(self, PhantomData)
    }

    fn ring_now(&self) {
        // SeqCst pairs with `wait`: either this call sees the sleeper, or the sleeper sees the
        // news.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _guard = self.state.lock();
            self.rung.notify_all();
        }
    }

    /// Waits for a ring, at most this long; does not wait if `is_news` returns true.
    pub(crate) fn wait(&self, at_most: Duration, is_news: impl Fn() -> bool) {
        let mut guard = self.state.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        if !is_news() {
            self.rung.wait_for(&mut guard, at_most);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// While it lives, its thread wakes the waiting threads at every [`RINGS_PER_WAKE`]th ring; its end
/// wakes them for the rest. It cannot move to another thread, which has a count of its own.
#[derive(Debug)]
pub struct Hold<'a>(&'a Bell, PhantomData<*const ()>);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if HELD.take().is_some_and(|held| held > 0) {
            self.0.ring_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::{Arc, mpsc};
    use std::thread;

    use super::*;

    #[test]
    fn every_follower_sees_every_number() {
        const LAST: u64 = 5_000;
        let shared = Arc::new((Bell::default(), AtomicU64::new(0)));
        let follow = |shared: Arc<(Bell, AtomicU64)>| {
            let (bell, number) = &*shared;
            let mut seen = 0;
            while seen < LAST {
                bell.wait(Duration::from_secs(60), || {
                    number.load(Ordering::SeqCst) > seen
                });
                seen = number.load(Ordering::SeqCst);
            }
        };
        let spawn = |_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || follow(shared))
        };
        let followers: Vec<_> = (0..2).map(spawn).collect();
        for next in 1..=LAST {
            shared.1.store(next, Ordering::SeqCst);
            shared.0.ring();
        }
        for follower in followers {
            follower.join().unwrap();
        }
    }

    #[test]
    fn a_hold_wakes_for_each_part_and_at_its_end_for_the_rest() {
        const SOON: Duration = Duration::from_secs(60);
        let (bell, number) = (Bell::default(), AtomicUsize::new(0));
        let (told, seen) = mpsc::channel();
        thread::scope(|scope| {
            let follow = || {
                while number.load(Ordering::SeqCst) < RINGS_PER_WAKE + 1 {
                    let before = number.load(Ordering::SeqCst);
                    bell.wait(SOON, || number.load(Ordering::SeqCst) > before);
                    told.send(number.load(Ordering::SeqCst)).unwrap();
                }
            };
            scope.spawn(follow);
            let hold = bell.hold();
            let ring = || {
                while bell.sleepers.load(Ordering::SeqCst) == 0 {
                    thread::yield_now();
                }
                let guard = bell.state.lock(); // the follower is in its wait
                number.fetch_add(1, Ordering::SeqCst);
                drop(guard);
                bell.ring();
            };
            (0..RINGS_PER_WAKE).for_each(|_| ring());
            assert_eq!(seen.recv_timeout(SOON), Ok(RINGS_PER_WAKE));
            ring();
            assert_eq!(seen.try_recv(), Err(mpsc::TryRecvError::Empty));
            drop(hold);
            assert_eq!(seen.recv_timeout(SOON), Ok(RINGS_PER_WAKE + 1));
        });
    }
}
