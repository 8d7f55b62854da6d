//! The crash suite: a store keeps its promises after any failure of disk or process.
//!
//! `tape` records a store's file operations. `disk` turns a recording into a possible state after a
//! power loss. `oracle` knows the promises and checks a store that was opened after the crash.

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
mod slave;
mod tape;
mod torn;
mod workload;
