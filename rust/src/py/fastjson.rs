//! Python door of `fastjson`.
