//! Opens the files of the commit log, and determines their length.
//!
//! A file that is too short is extended; the rest of it reads as zeros. In the last file, recovery
//! treats them as the end of the log or as damage. An earlier file may be one that recovery does
//! not read, so it is recorded until it is repaired.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

use super::layout::unknown;
use super::log_facts::LogFacts;
use super::log_place;
use crate::files::{io_error, offset_name};
use crate::settings::Settings;
use crate::types::StoreError;
use mq_log::fs::{OpenOptions, open_own};
use mq_log::{Directory, FileInfo, Segments, WriteMode};

/// `mappedFileSizeCommitLog` of a new store, bytes.
const DEFAULT_FILE_BYTES: u64 = 1 << 30;
/// Shortest and longest log file. A blank record holds the rest of its file as an int.
const FILE_BYTES: RangeInclusive<u64> = 4096..=i32::MAX as u64;
/// Most missing files in the log of a store that can be opened.
pub const MISSING_FILES_MAX: usize = 1_024;

/// Opens the log's files, with the length that they have, or with the configured one if there are
/// none.
pub fn open_log(root: &Path, settings: &Settings) -> Result<Segments, StoreError> {
    let path = root.join("commitlog");
    let mode = if settings.sync_flush {
        WriteMode::Write
    } else {
        WriteMode::Map
    };
    let workshop = log_place::workshop(root)?;
    let files = Directory::open(&path, &workshop, mode).map_err(io_error(&path))?;
    let found = list_without_stray(&path, &files)?;
    let facts = LogFacts::read(root)?;
    let file_bytes = file_bytes(root, &found, settings, facts.file_bytes)?;
    check_files(root, &found, file_bytes)?;
    let facts = LogFacts {
        file_bytes,
        ..facts
    };
    give_back_length(root, &found, facts, settings.repair_damage)?;
    let log = Segments::open(files, file_bytes).map_err(io_error(&path))?;
    check_gaps(root, &log)?;
    Ok(log)
}

/// The length of a log file; there may be no file yet.
fn file_bytes(
    root: &Path,
    found: &[FileInfo],
    settings: &Settings,
    recorded: u64,
) -> Result<u64, StoreError> {
    let set = settings.commit_log_file_bytes;
    let longest = found.iter().map(|file| file.length).max();
    let is_stump = longest.is_some_and(|longest| longest < *FILE_BYTES.start());
    let known = match recorded {
        0 => set.filter(|_| is_stump),
        recorded => Some(recorded),
    };
    let found_bytes = length_of(found, known);
    if let (Some(set), Some(found)) = (set, found_bytes)
        && set != found
    {
        let what = format!(
            "its commit-log files have {found} bytes, mappedFileSizeCommitLog is {set}; \
             leave the key out to continue with {found}"
        );
        return Err(unknown(root, what));
    }
    let recorded = Some(recorded).filter(|bytes| *bytes > 0);
    let file_bytes = found_bytes.or(set).or(recorded);
    let file_bytes = file_bytes.unwrap_or(DEFAULT_FILE_BYTES);
    if found_bytes.is_none() && !FILE_BYTES.contains(&file_bytes) {
        return Err(StoreError::Setting {
            key: "mappedFileSizeCommitLog",
            value: file_bytes.to_string(),
            what: "4096 to 2147483647 bytes",
        });
    }
    Ok(file_bytes)
}

/// The length of a log's files before some were truncated; None without files.
///
/// Names are multiples of it, and truncation makes no file longer. So it is the recorded length, or
/// else the longest one, if that fits.
pub fn length_of(files: &[FileInfo], recorded: Option<u64>) -> Option<u64> {
    let longest = files.iter().map(|file| file.length).max()?;
    let fits = |bytes: &u64| {
        let is_multiple = |file: &FileInfo| file.start.is_multiple_of(*bytes);
        FILE_BYTES.contains(bytes) && files.iter().all(is_multiple)
    };
    let mut counts = BTreeMap::new();
    for file in files {
        *counts.entry(file.length).or_insert(0) += 1;
    }
    let usual = counts.into_iter().max_by_key(|(_, count)| *count);
    let usual = usual.map_or(longest, |(length, _)| length);
    let stride = files.iter().fold(0, |stride, file| gcd(stride, file.start));
    let is_enough = |bytes: &u64| longest <= *bytes && fits(bytes);
    recorded
        .filter(is_enough)
        .or(Some(longest).filter(fits))
        .or(Some(usual).filter(fits))
        .or(Some(stride).filter(is_enough))
        .or(Some(DEFAULT_FILE_BYTES).filter(|bytes| longest < *FILE_BYTES.start() && fits(bytes)))
        .or(Some(usual))
}

fn gcd(left: u64, right: u64) -> u64 {
    match right {
        0 => left,
        _ => gcd(right, left % right),
    }
}

/// Lists the log's files. Removes empty files at the end, which never got their length.
fn list_without_stray(path: &Path, files: &Directory) -> Result<Vec<FileInfo>, StoreError> {
    let mut found = files.list().map_err(io_error(path))?;
    while let Some(stray) = found.pop_if(|last| last.length == 0) {
        let path = path.join(offset_name(stray.start));
        tracing::warn!(path = %path.display(), "removing an empty commit-log file at the end");
        files.remove(stray.start).map_err(io_error(&path))?;
    }
    Ok(found)
}

/// Checks that no file is too long and that all names are multiples of the length.
fn check_files(root: &Path, files: &[FileInfo], file_bytes: u64) -> Result<(), StoreError> {
    for file in files {
        let path = root.join("commitlog").join(offset_name(file.start));
        let path = path.display();
        let wrong = if file.length > file_bytes {
            let length = file.length;
            format!("{path} has {length} bytes, expected {file_bytes} like the other files")
        } else if !FILE_BYTES.contains(&file_bytes) {
            let (least, most) = FILE_BYTES.into_inner();
            format!("{path} has {file_bytes} bytes, expected {least} to {most}")
        } else if !file.start.is_multiple_of(file_bytes) {
            format!("the name of {path} is not a multiple of {file_bytes}, the length of the files")
        } else if file.start > i64::MAX.cast_unsigned() - file_bytes {
            format!("{path} would end beyond the largest offset, {}", i64::MAX)
        } else {
            continue;
        };
        return Err(refused(root, &wrong));
    }
    Ok(())
}

fn refused(root: &Path, wrong: &str) -> StoreError {
    let shown = root.display();
    let what = format!(
        "{wrong}; put the right file in its place, or write what can be read to a new store \
         with `mqstore repair {shown} --to NEW_DIRECTORY`"
    );
    unknown(root, what)
}

/// Extends short files to the full length, after recording which of them lack records.
fn give_back_length(
    root: &Path,
    found: &[FileInfo],
    mut facts: LogFacts,
    repairs: bool,
) -> Result<(), StoreError> {
    let length = facts.file_bytes;
    let is_short = |file: &&FileInfo| file.length < length;
    let last = found.last().map_or(0, |last| last.start);
    for file in found
        .iter()
        .filter(is_short)
        .filter(|file| file.start < last)
    {
        if !repairs {
            let path = root.join("commitlog").join(offset_name(file.start));
            let (path, short) = (path.display(), file.length);
            let wrong = format!("{path} has {short} bytes, expected {length}");
            return Err(refused(root, &wrong));
        }
        if !facts.extended.contains(&file.start) {
            facts.extended.push(file.start);
        }
    }
    if LogFacts::read(root)? != facts {
        facts.save(root)?;
    }
    for file in found.iter().filter(is_short) {
        let path = root.join("commitlog").join(offset_name(file.start));
        let (shown, short) = (path.display(), file.length);
        tracing::error!("{shown} has {short} bytes, expected {length}: the rest reads as zeros");
        let file = open_own(&path, OpenOptions::new().write(true));
        file.and_then(|file| {
            file.set_len(length)?;
            file.sync_all()
        })
        .map_err(io_error(&path))?;
    }
    Ok(())
}

/// Refuses a log with so many missing files that its files cannot belong together.
fn check_gaps(root: &Path, log: &Segments) -> Result<(), StoreError> {
    let missing = log.missing(MISSING_FILES_MAX + 1);
    let Some(first) = missing.first() else {
        return Ok(());
    };
    let path = root.join("commitlog").join(offset_name(*first));
    let (path, present, file_bytes) = (path.display(), log.starts(), log.file_size());
    let strides = present.windows(2).map(|pair| pair[1] - pair[0]);
    if present.len() > 2 && strides.clone().all(|stride| stride > file_bytes) {
        let what = format!(
            "{path} is missing, and so is a file after every other one: this is one of several \
             paths of a log (storePathCommitLog with a list). Move the files of all paths into \
             one commitlog directory, then run `mqstore verify {}`",
            root.display()
        );
        return Err(unknown(root, what));
    }
    if missing.len() > MISSING_FILES_MAX {
        let what = format!(
            "{path} and more than {MISSING_FILES_MAX} files after it are missing; if a later file \
             does not belong to the store, move it away, then run `mqstore verify {}`",
            root.display()
        );
        return Err(unknown(root, what));
    }
    Ok(())
}
