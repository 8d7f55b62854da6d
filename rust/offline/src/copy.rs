//! Copies a store: the log up to its end, and every file that is not derived from the log.

use std::path::Path;

use super::log::LogDirectory;
use super::progress::{ProgressReporter, Step, stopped};
use mq_log::fs::{self, File, OpenOptions, open_own};
use mq_store::StoreError;
use mq_store::inspect::scan::LogRead;
use mq_store::inspect::{create_directory, io_error, list, offset_name, sync_directory};

/// Bytes copied at once.
const COPY_BYTES: usize = 1 << 20;
/// Names that are not copied: derived from the log, copied separately, or used by an open store
/// only.
const LEFT_OUT: [&str; 8] = [
    "commitlog",
    "consumequeue",
    "consumequeue_ext",
    "index",
    "checkpoint",
    "abort",
    "lock",
    "mqstack",
];

/// Copies the log up to `end` into `to/commitlog`. Each file keeps its nominal length and its age.
pub(super) fn copy_log(
    log: &LogDirectory,
    to: &Path,
    end: u64,
    reporter: &ProgressReporter<'_>,
) -> Result<(), StoreError> {
    let directory = to.join("commitlog");
    create_directory(&directory)?;
    let range = log.min_offset()..end;
    for source in log.files()? {
        let start = source.offset;
        if !range.contains(&start) {
            continue;
        }
        let path = directory.join(offset_name(start));
        let file = create(&path)?;
        let length = log.next_file_start(start) - start;
        file.set_len(length).map_err(io_error(&path))?;
        let copied =
            |at: u64| reporter.report(Step::Copy, start + at - range.start, end - range.start);
        copy_data(&source.path, &path, &file, length.min(end - start), copied)?;
        file.sync_all().map_err(io_error(&path))?;
    }
    sync_directory(&directory)
}

/// Copies all other files: state files, and files that we do not know.
pub(super) fn copy_rest(
    root: &Path,
    to: &Path,
    reporter: &ProgressReporter<'_>,
) -> Result<(), StoreError> {
    for (name, path) in list(root)? {
        if !LEFT_OUT.contains(&name.as_str()) {
            copy_tree(&path, &to.join(name), reporter)?;
        }
    }
    sync_directory(to)
}

/// Copies a file or a folder. A link to a file stays a link: its target is not part of the store.
pub(super) fn copy_tree(
    from: &Path,
    to: &Path,
    reporter: &ProgressReporter<'_>,
) -> Result<(), StoreError> {
    if from.is_dir() {
        create_directory(to)?;
        for (name, path) in list(from)? {
            copy_tree(&path, &to.join(name), reporter)?;
        }
        return sync_directory(to);
    }
    if fs::copy_link(from, to).map_err(io_error(from))? || !from.is_file() {
        return Ok(());
    }
    let length = fs::metadata(from).map_err(io_error(from))?.len();
    let file = create(to)?;
    file.set_len(length).map_err(io_error(to))?;
    copy_data(from, to, &file, length, |_| {
        reporter.report(Step::Copy, 0, 0)
    })?;
    file.sync_all().map_err(io_error(to))
}

fn create(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    open_own(path, &mut options).map_err(io_error(path))
}

/// Copies the first `count` bytes. Skips zeros, because the target already has its full length.
fn copy_data(
    from: &Path,
    path: &Path,
    to: &File,
    count: u64,
    copied: impl Fn(u64) -> std::io::Result<()>,
) -> Result<(), StoreError> {
    let source = open_own(from, OpenOptions::new().read(true)).map_err(io_error(from))?;
    let mut bytes = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < count {
        copied(at).map_err(stopped)?;
        let wanted = usize::try_from(count - at).unwrap_or(usize::MAX);
        let wanted = wanted.min(COPY_BYTES);
        let read = source.read_at(&mut bytes[..wanted], at);
        let read = read.map_err(io_error(from))?;
        if read == 0 {
            break;
        }
        if bytes[..read].iter().any(|byte| *byte != 0) {
            to.write_all_at(&bytes[..read], at)
                .map_err(io_error(path))?;
        }
        at += read as u64;
    }
    let modified = source.metadata().and_then(|metadata| metadata.modified());
    modified
        .and_then(|time| to.set_modified(time))
        .map_err(io_error(path))
}
