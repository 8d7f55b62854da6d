//! Python door of `server`.
