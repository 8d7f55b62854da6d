//! Checks whether the system allows more threads, for code that fails badly without them.

use std::io;
use std::sync::Arc;
use std::thread::Builder;

use parking_lot::{Condvar, Mutex};

/// Checks that this process can run `count` more threads at a time, by starting and ending them.
///
/// A tokio runtime panics when it cannot start a worker, and then waits forever for the others; a
/// scope waits for the threads that did start. Callers check here before they start either.
///
/// # Errors
/// The operating system's: too little address space (`ulimit -v`), or too many threads.
pub fn can_start(count: usize) -> io::Result<()> {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let mut threads = Vec::new();
    let mut outcome = Ok(());
    for _ in 0..count {
        let gate = Arc::clone(&gate);
        match Builder::new().spawn(move || wait_for(&gate)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    *gate.0.lock() = true;
    gate.1.notify_all();
    for thread in threads {
        let _ = thread.join();
    }
    outcome
}

fn wait_for(gate: &(Mutex<bool>, Condvar)) {
    gate.1.wait_while(&mut gate.0.lock(), |is_open| !*is_open);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_threads_can_start_and_end() {
        for _ in 0..100 {
            can_start(4).unwrap();
        }
        can_start(0).unwrap();
    }
}
