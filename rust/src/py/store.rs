//! Python door of `store`.
