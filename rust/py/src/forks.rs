//! Which process of a line of forks this is, without a system call for each question.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);
static REGISTER: Once = Once::new();

/// How often this process and its parents forked since the first question: a number that stays
/// in a process and is another in its children.
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
