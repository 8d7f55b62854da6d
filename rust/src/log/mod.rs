//! Bytes and offsets on disk; knows no messages.
