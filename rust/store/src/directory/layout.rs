//! Checks what a store directory contains.

use std::path::Path;

use super::log_place;
use super::recognise::{Effect, recognise};
use crate::files::{create_directory, io_error, list, offset_files, sync_directory};
use crate::types::StoreError;
use mq_log::fs;

/// Exists while a store is open, and after an unclean stop.
pub const ABORT: &str = "abort";

/// Creates the root directory; without `create`, requires that it holds a store. Refuses a store
/// that only a newer RocketMQ can append to.
pub(crate) fn prepare_root(
    root: &Path,
    elsewhere: Option<&Path>,
    create: bool,
) -> Result<(), StoreError> {
    if !create && !fs::metadata(root).map_err(io_error(root))?.is_dir() {
        return Err(unknown(root, what_it_may_be(root)));
    }
    for foreign in recognise(root) {
        let (path, what) = (&foreign.path, foreign.what);
        match foreign.effect {
            Effect::Read => tracing::info!(path, "{what}"),
            Effect::Ignored => tracing::warn!(path, "{what}"),
            Effect::Refused => {
                let shown = root.display();
                let what = format!(
                    "{path}: {what}. Such a store is not appended to; read its messages with \
                     `mqstore dump {shown}`, or build a store of plain queues from its log with \
                     `mqstore rebuild {shown} --to NEW_DIRECTORY`"
                );
                return Err(unknown(root, what));
            }
        }
    }
    if let Some(elsewhere) = elsewhere
        && (create || elsewhere.is_dir())
    {
        create_directory(root)?;
        log_place::link(root, elsewhere)?;
    }
    let has_log = root.join("commitlog").is_dir();
    let queues = root.join("consumequeue");
    if !has_log && !list(&queues)?.is_empty() {
        // A new log would begin at 0, and so would every queue.
        let what = "there are consume queues, but no commitlog directory: mount it or move it \
                    here, or set storePathCommitLog. A log in several paths is not supported";
        return Err(unknown(root, what.into()));
    }
    match create {
        true => create_directory(root),
        false if has_log => Ok(()),
        false => Err(unknown(root, what_it_may_be(root))),
    }
}

/// Explains a directory that has no log.
fn what_it_may_be(root: &Path) -> String {
    let below = root.join("store");
    if below.join("commitlog").is_dir() {
        return format!(
            "there is no commitlog directory; {} has one",
            below.display()
        );
    }
    let is_log = offset_files(root).is_ok_and(|files| !files.is_empty());
    if is_log && let Some(parent) = root.parent() {
        return format!(
            "this looks like a log; name its parent, {}",
            parent.display()
        );
    }
    "there is no commitlog directory; create=True creates a new store here".into()
}

pub(crate) fn unknown(root: &Path, what: String) -> StoreError {
    StoreError::UnknownLayout {
        root: root.display().to_string(),
        what,
    }
}

/// Creates `abort` durably; from now on the store may change.
pub fn mark_open(root: &Path) -> Result<(), StoreError> {
    let path = root.join(ABORT);
    let created = fs::create_own(&path).and_then(|abort| abort.sync_all());
    created.map_err(io_error(&path))?;
    sync_directory(root)
}
