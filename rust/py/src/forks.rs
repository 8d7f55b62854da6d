//! Tells a forked child from its parent without a system call for each check.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);
static REGISTER: Once = Once::new();

/// Number of forks on the way to this process since the first call. It stays the same in a process
/// and differs in its children.
pub(super) fn count() -> u32 {
    REGISTER.call_once(|| {
        // SAFETY: the handler only adds to an atomic, which it may after a fork.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    FORKS.load(Ordering::Relaxed)
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
