//! Python door of `errors`.
