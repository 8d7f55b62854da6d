//! How often a waiting call looks for Ctrl-C.

use std::time::Duration;

/// Interval at which the main thread checks for signals while it waits.
const POLL: Duration = Duration::from_millis(50);

/// Returns the longest wait between two checks for signals. Python handles signals in the main
/// thread only, so other threads wait without interruption.
pub(super) fn check_interval() -> Duration {
    match rustix::thread::gettid() == rustix::process::getpid() {
        true => POLL,
        false => Duration::MAX,
    }
}
