//! The crash suite: whatever happens to the disk or the process, a store keeps its promises.
//!
//! `tape` records what a store does to its directory, `disk` makes of it what a power loss may
//! leave, `oracle` knows what was promised and judges a store that was opened after the crash.

#![allow(clippy::unwrap_used, reason = "a test's helpers")]

mod delayed;
mod disk;
mod failing;
#[path = "../common/flip.rs"]
mod flip;
mod flips;
mod full_disk;
mod io_errors;
mod kill;
mod oracle;
mod power_loss;
mod random;
mod rig;
mod seam;
mod tape;
mod torn;
mod workload;
