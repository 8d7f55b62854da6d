//! Opening a store: find the end of the log, mend or rebuild what is derived from it.

mod queue;
