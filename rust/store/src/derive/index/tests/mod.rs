//! Index files on disk.

mod files;
mod geometry;
