//! Masters and slaves over real sockets, with real stores.

mod golden;
mod pair;
mod tls;
