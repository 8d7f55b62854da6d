//! The client engine: connections, and opaque numbers to waiters.
