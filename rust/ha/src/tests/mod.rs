//! Masters and slaves over real sockets, with real stores.

mod foreign;
mod golden;
mod limits;
mod pair;
mod tls;
