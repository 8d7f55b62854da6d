//! What a store directory must look like, and the sizes its files have.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

use super::files::{create_directory, io_error, list, offset_files, offset_name, sync_directory};
use super::log_place;
use super::recognise::{Effect, recognise};
use super::settings::Settings;
use super::types::StoreError;
use crate::log::fs;
use crate::log::{Directory, FileInfo, Files, Segments, WriteMode};

/// `mappedFileSizeCommitLog` of a new store, bytes.
const DEFAULT_FILE_BYTES: u64 = 1 << 30;
/// Shortest and longest commit-log file: the filler states the rest of a file as an int.
const FILE_BYTES: RangeInclusive<u64> = 4096..=i32::MAX as u64;
/// Most files missing in the log of a store that is opened.
pub(super) const MISSING_FILES_MAX: usize = 1_024;
/// Present while a store is open, and after it was not closed.
pub(super) const ABORT: &str = "abort";

/// Makes the root directory, or without `create` demands that it is a store; in both cases that
/// it is none that only a newer RocketMQ can append to.
pub(super) fn prepare_root(
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
                     `mqstore dump {shown}`, or make a store of plain queues from its log with \
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
        // A new log would begin at 0, and every queue with it.
        let what = "there are consume queues, but no commitlog directory: mount it or move it \
                    here, or set storePathCommitLog. A log in several paths is not read";
        return Err(unknown(root, what.into()));
    }
    match create {
        true => create_directory(root),
        false if has_log => Ok(()),
        false => Err(unknown(root, what_it_may_be(root))),
    }
}

/// What to say of a directory that has no log.
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
        return format!("this looks like a log itself; name {}", parent.display());
    }
    "there is no commitlog directory; create=True makes a new store here".into()
}

/// Opens the commit log's files with the size they have, else with the size that is set.
pub(super) fn open_log(
    root: &Path,
    settings: &Settings,
) -> Result<Segments<Directory>, StoreError> {
    let path = root.join("commitlog");
    let mode = if settings.sync_flush {
        WriteMode::Write
    } else {
        WriteMode::Map
    };
    let workshop = log_place::workshop(root)?;
    let files = Directory::open(&path, &workshop, mode).map_err(io_error(&path))?;
    let found = list_without_stray(&path, &files)?;
    let found_bytes = usual_length(&found);
    let file_bytes = match (settings.commit_log_file_bytes, found_bytes) {
        (Some(set), Some(found)) if set != found => {
            let what = format!(
                "its commit-log files have {found} bytes, mappedFileSizeCommitLog is {set}; \
                 leave the key out to go on with {found}"
            );
            return Err(unknown(root, what));
        }
        (set, found) => found.or(set).unwrap_or(DEFAULT_FILE_BYTES),
    };
    if found_bytes.is_none() && !FILE_BYTES.contains(&file_bytes) {
        return Err(StoreError::Setting {
            key: "mappedFileSizeCommitLog",
            value: file_bytes.to_string(),
            what: "4096 to 2147483647 bytes",
        });
    }
    check_files(root, &found, file_bytes)?;
    let log = Segments::open(files, file_bytes).map_err(io_error(&path))?;
    check_gaps(root, &log)?;
    Ok(log)
}

/// Lists the log's files, removing empty last ones: files that never got their length.
fn list_without_stray(path: &Path, files: &Directory) -> Result<Vec<FileInfo>, StoreError> {
    let mut found = files.list().map_err(io_error(path))?;
    while let Some(stray) = found.pop_if(|last| last.length == 0) {
        let path = path.join(offset_name(stray.start));
        tracing::warn!(path = %path.display(), "removing an empty last commit-log file");
        files.remove(stray.start).map_err(io_error(&path))?;
    }
    Ok(found)
}

/// The length that most files have; of equals the longer.
fn usual_length(files: &[FileInfo]) -> Option<u64> {
    let mut counts = BTreeMap::new();
    for file in files {
        *counts.entry(file.length).or_insert(0) += 1;
    }
    let usual = counts.into_iter().max_by_key(|(_, count)| *count);
    usual.map(|(length, _)| length)
}

/// Every file must have the length, and a name that is a multiple of it.
fn check_files(root: &Path, files: &[FileInfo], file_bytes: u64) -> Result<(), StoreError> {
    for file in files {
        let path = root.join("commitlog").join(offset_name(file.start));
        let path = path.display();
        let wrong = if file.length != file_bytes {
            let length = file.length;
            format!("{path} has {length} bytes, expected {file_bytes} as the other files have")
        } else if !FILE_BYTES.contains(&file_bytes) {
            let (least, most) = FILE_BYTES.into_inner();
            format!("{path} has {file_bytes} bytes, expected {least} to {most}")
        } else if !file.start.is_multiple_of(file_bytes) {
            format!("{path} is not named by a multiple of {file_bytes}, the length of the files")
        } else if file.start > i64::MAX.cast_unsigned() - file_bytes {
            format!("{path} would end beyond the largest offset, {}", i64::MAX)
        } else {
            continue;
        };
        let root_path = root.display();
        let what = format!(
            "{wrong}; put the right file in its place, or write what can be read to a new store \
             with `mqstore repair {root_path} --to NEW_DIRECTORY`"
        );
        return Err(unknown(root, what));
    }
    Ok(())
}

/// Files may be missing, but not so many that this is not the log.
fn check_gaps(root: &Path, log: &Segments<Directory>) -> Result<(), StoreError> {
    let missing = log.missing(MISSING_FILES_MAX + 1);
    let Some(first) = missing.first() else {
        return Ok(());
    };
    let path = root.join("commitlog").join(offset_name(*first));
    let (path, present, file_bytes) = (path.display(), log.starts(), log.file_size());
    let strides = present.windows(2).map(|pair| pair[1] - pair[0]);
    if present.len() > 2 && strides.clone().all(|stride| stride > file_bytes) {
        let what = format!(
            "{path} is missing, and so is a file behind each other one: this is one of several \
             paths of a log (storePathCommitLog with a list). Put the files of all paths into \
             one commitlog directory, then run `mqstore verify {}`",
            root.display()
        );
        return Err(unknown(root, what));
    }
    if missing.len() > MISSING_FILES_MAX {
        let what = format!(
            "{path} is missing, and more than {MISSING_FILES_MAX} files behind it; if a file \
             beyond does not belong to the store, move it away, then run `mqstore verify {}`",
            root.display()
        );
        return Err(unknown(root, what));
    }
    Ok(())
}

fn unknown(root: &Path, what: String) -> StoreError {
    StoreError::UnknownLayout {
        root: root.display().to_string(),
        what,
    }
}

/// Creates `abort`, durably: from now on the store may change.
pub(super) fn mark_open(root: &Path) -> Result<(), StoreError> {
    let path = root.join(ABORT);
    let created = fs::create_own(&path).and_then(|abort| abort.sync_all());
    created.map_err(io_error(&path))?;
    sync_directory(root)
}
