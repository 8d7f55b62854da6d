//! Python door of `client`.
