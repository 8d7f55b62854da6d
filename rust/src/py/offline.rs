//! Python door of `offline`.
