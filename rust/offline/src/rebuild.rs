//! Makes a store whole again. `rebuild` builds the files that are derived from the log; `repair`
//! first repairs the log. Both work in place or on a copy; a copy leaves the source unchanged.

use std::path::{Path, PathBuf};

use super::build::{Built, Site, settings_of};
use super::copy::{copy_log, copy_rest};
use super::groups::{Bounds, GroupOutlook, bounds_on_disk, outlook, restore_states};
use super::log::LogDirectory;
use super::log_repair::{Source, repair_log, rewrite};
use super::plan::{LastStop, Plan};
use super::progress::{Progress, ProgressReporter, ReportedLog, Step};
use super::rebuild_options::RebuildOptions;
use super::scan::{Scan, log_error};
use mq_log::fs;
use mq_store::StoreError;
use mq_store::inspect::Deletions;
use mq_store::inspect::LogFacts;
use mq_store::inspect::StoreLock;
use mq_store::inspect::layout;
use mq_store::inspect::log_files;
use mq_store::inspect::scan::{Left, LogRead};
use mq_store::inspect::{CleanStop, LogEnd};
use mq_store::inspect::{create_directory, io_error, list, sync_directory};

/// Where derived files are built, beside the current ones.
const SITE: &str = "mqstack/rebuild";
/// Folders that are derived from the log.
const DERIVED: [&str; 3] = ["consumequeue", "consumequeue_ext", "index"];

/// Report of a rebuild or repair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rebuilt {
    /// The directory of the result.
    pub root: PathBuf,
    /// First byte of the log.
    pub log_start: u64,
    /// Offset at which the next message will be appended.
    pub log_end: u64,
    /// Records kept.
    pub records: u64,
    /// Damaged ranges that were overwritten, and the files that keep their bytes.
    pub repaired: Vec<(u64, u64, PathBuf)>,
    /// Bytes after the end of the log that held no usable record and were removed.
    pub cut: Option<(u64, u64)>,
    /// Consume queues.
    pub queues: usize,
    /// Entries in all consume queues.
    pub queue_entries: u64,
    /// Queues whose messages have all expired, kept so that their offsets continue.
    pub kept_queues: Vec<(String, i32)>,
    /// Index entries.
    pub index_entries: u64,
    /// State files restored from their previous copy.
    pub restored: Vec<String>,
    /// What consumer groups will see.
    pub groups: Vec<GroupOutlook>,
}

/// Rebuilds or repairs the store at `root`.
pub fn rebuild(
    root: &Path,
    options: &RebuildOptions<'_>,
    progress: &mut Progress<'_>,
) -> Result<Rebuilt, StoreError> {
    let reporter = ProgressReporter::new(progress);
    match options.to {
        None => {
            // Open the scan first: a directory that is no store must not get a lock file.
            let scan = Scan::open(root)?;
            let _lock = StoreLock::acquire(root)?;
            in_place(&scan, options, &reporter)
        }
        Some(to) => copied(&Scan::open(root)?, to, options, &reporter),
    }
}

/// Works on the store itself. After a crash, the next open completes the work.
fn in_place(
    scan: &Scan,
    options: &RebuildOptions<'_>,
    reporter: &ProgressReporter<'_>,
) -> Result<Rebuilt, StoreError> {
    let root = scan.root.as_path();
    let settings = settings_of(scan, options)?;
    let state = scan.state()?;
    let before = bounds_on_disk(scan)?;
    let plan = plan(scan, options, reporter)?;
    let site = root.join(SITE);
    remove_tree(&site)?;
    layout::mark_open(root)?;
    CleanStop::remove(root)?;
    let safe_ms = scan.safe_ms()?;
    let left = if state.is_clean {
        Left::Clean
    } else {
        Left::Unclean(safe_ms)
    };
    let source = match plan {
        Some(plan) => {
            if let Some(from) = plan.unsafe_from {
                let log = log_files::open_log(root, &settings)?;
                rewrite(&log, from, plan.log_end).map_err(log_error(from.cast_signed()))?;
            }
            plan.into_source()
        }
        None => repair_log(scan, root, &settings, left, reporter)?,
    };
    create_directory(&site)?;
    let work = Site {
        folder: &site,
        root,
        settings: &settings,
        reporter,
    };
    let built = work.build(
        &LogDirectory::open(root)?,
        source.log_end,
        scan,
        &source.repaired,
    )?;
    put_in_place(&site, root)?;
    let done = finish(root, options, source, &built, &before)?;
    remove_tree(&site)?;
    Ok(done)
}

/// Builds a copy in a folder beside `to`, and renames it to `to` when it is complete.
fn copied(
    scan: &Scan,
    to: &Path,
    options: &RebuildOptions<'_>,
    reporter: &ProgressReporter<'_>,
) -> Result<Rebuilt, StoreError> {
    let site = site_beside(to, &scan.root)?;
    remove_tree(&site)?;
    let made = copy_and_build(scan, &site, options, reporter).and_then(|mut done| {
        fs::rename(&site, to).map_err(io_error(to))?;
        sync_directory(&parent_of(to))?;
        done.root = to.to_owned();
        for (_, _, path) in &mut done.repaired {
            if let Ok(inner) = path.strip_prefix(&site) {
                *path = to.join(inner);
            }
        }
        Ok(done)
    });
    if made.is_err() {
        remove_tree(&site)?;
    }
    made
}

fn copy_and_build(
    scan: &Scan,
    site: &Path,
    options: &RebuildOptions<'_>,
    reporter: &ProgressReporter<'_>,
) -> Result<Rebuilt, StoreError> {
    let settings = settings_of(scan, options)?;
    let state = scan.state()?;
    let plan = plan(scan, options, reporter)?;
    let end = plan
        .as_ref()
        .map_or(scan.log.max_offset(), |plan| plan.log_end);
    create_directory(site)?;
    copy_log(&scan.log, site, end, reporter)?;
    copy_rest(&scan.root, site, reporter)?;
    Deletions::read(&scan.root)?.copy_to(site)?;
    let source = match plan {
        Some(plan) => plan.into_source(),
        None => {
            // The copy is synced, whether or not the source's last writes reached the disk.
            let left = if state.is_clean {
                Left::Clean
            } else {
                Left::Unclean(scan.safe_ms()?)
            };
            repair_log(scan, site, &settings, left, reporter)?
        }
    };
    let work = Site {
        folder: site,
        root: site,
        settings: &settings,
        reporter,
    };
    let built = work.build(
        &LogDirectory::open(site)?,
        source.log_end,
        scan,
        &source.repaired,
    )?;
    finish(site, options, source, &built, &bounds_on_disk(scan)?)
}

/// Reads the whole log and refuses damage, which `rebuild` cannot repair. None for `repair`, which
/// checks the log while it repairs it.
fn plan(
    scan: &Scan,
    options: &RebuildOptions<'_>,
    reporter: &ProgressReporter<'_>,
) -> Result<Option<Plan>, StoreError> {
    if options.repairs {
        return Ok(None);
    }
    let state = scan.state()?;
    let limit = scan.log.max_offset();
    let is_safe = state.is_clean || options.to.is_some();
    let left = LastStop {
        is_clean: state.is_clean,
        safe_ms: if is_safe { i64::MAX } else { scan.safe_ms()? },
    };
    let watched = ReportedLog {
        log: &scan.log,
        reporter,
        step: Step::Check,
        end: limit,
    };
    let plan = Plan::of(&watched, limit, left)?;
    let Some(damage) = &plan.damaged else {
        return Ok(Some(plan));
    };
    let root = scan.root.display().to_string();
    let what = format!(
        "{damage}; to save and overwrite the damaged bytes: mqstore repair {root} --to DIR"
    );
    Err(StoreError::Damaged { root, what })
}

/// Writes state files, checkpoint and the marks of a clean stop, and returns the report.
fn finish(
    root: &Path,
    options: &RebuildOptions<'_>,
    source: Source,
    built: &Built,
    before: &Bounds,
) -> Result<Rebuilt, StoreError> {
    let log = LogDirectory::open(root)?;
    for queue in built.queues.all() {
        queue.set_min_from(log.min_offset().cast_signed());
    }
    let restored = if options.repairs {
        restore_states(root)?
    } else {
        Vec::new()
    };
    let groups = outlook(root, before, &built.queues, options.repairs)?;
    let time = source.last_store_timestamp_ms;
    built.checkpoint.set_log_timestamp(time);
    built.checkpoint.set_queue_timestamp(time);
    built.checkpoint.set_index_timestamp(time);
    built.checkpoint.flush()?;
    let end = LogEnd::of(&log, source.log_end, time).map_err(log_error(0))?;
    let checkpoint_crc = built.checkpoint.crc()?;
    let clean_stop = CleanStop::of(end, checkpoint_crc, &built.queues, Some(&built.index));
    clean_stop.save(root)?;
    LogFacts::complete(root)?;
    let abort = root.join(layout::ABORT);
    if abort.exists() {
        fs::remove_file(&abort).map_err(io_error(&abort))?;
    }
    sync_directory(root)?;
    let repaired = source.repaired.iter();
    let repaired = repaired.flat_map(|(from, to)| pieces(root, &log, *from, *to));
    Ok(Rebuilt {
        root: root.to_owned(),
        log_start: log.min_offset(),
        log_end: source.log_end,
        records: built.records,
        repaired: repaired.collect(),
        cut: source.cut,
        queues: built.queues.all().len(),
        queue_entries: count_queue_entries(built),
        kept_queues: built.kept.clone(),
        index_entries: count_index_entries(built)?,
        restored,
        groups,
    })
}

/// The parts of a repaired range, one per log file, and the file with the saved bytes of each.
fn pieces(root: &Path, log: &LogDirectory, from: u64, to: u64) -> Vec<(u64, u64, PathBuf)> {
    let directory = root.join("mqstack").join("quarantine");
    let (mut at, mut found) = (from, Vec::new());
    while at < to {
        let end = to.min(log.next_file_start(at));
        found.push((at, end, directory.join(format!("{at:020}-{end:020}"))));
        at = end;
    }
    found
}

fn count_queue_entries(built: &Built) -> u64 {
    let queues = built.queues.all();
    let counts = queues
        .iter()
        .map(|queue| queue.max_offset() - queue.min_offset());
    counts.sum::<i64>().unsigned_abs()
}

fn count_index_entries(built: &Built) -> Result<u64, StoreError> {
    let mut count = 0;
    for file in built.index.files() {
        let header = file.header().map_err(io_error(file.path()))?;
        count += u64::from(header.index_count.max(1).unsigned_abs() - 1);
    }
    Ok(count)
}

/// Swaps the new files in. The old ones stay in `site` until the caller removes it.
fn put_in_place(site: &Path, root: &Path) -> Result<(), StoreError> {
    let swap = |from: &Path, to: &Path| match fs::rename(from, to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error(from)(error)),
        _ => Ok(()),
    };
    for name in DERIVED {
        swap(&root.join(name), &site.join(format!("old-{name}")))?;
        swap(&site.join(name), &root.join(name))?;
    }
    swap(&site.join("checkpoint"), &root.join("checkpoint"))?;
    sync_directory(site)?;
    sync_directory(root)
}

/// A folder beside `to`. Fails if `to` exists and is not an empty directory, or is inside the
/// store.
fn site_beside(to: &Path, root: &Path) -> Result<PathBuf, StoreError> {
    let exists = |what: &str| {
        let kind = std::io::Error::from_raw_os_error(libc::EEXIST);
        io_error(Path::new(what))(kind)
    };
    if to.exists() && (!to.is_dir() || !list(to)?.is_empty()) {
        return Err(exists(&to.display().to_string()));
    }
    let Some(name) = to.file_name().and_then(|name| name.to_str()) else {
        return Err(exists(&to.display().to_string()));
    };
    let parent = parent_of(to);
    let whole = |path: &Path| path.canonicalize().map_err(io_error(path));
    if whole(&parent)?.starts_with(whole(root)?) {
        let what = "a copy cannot be inside the store that it is made from";
        let kind = std::io::Error::new(std::io::ErrorKind::InvalidInput, what);
        return Err(io_error(to)(kind));
    }
    Ok(parent.join(format!(".{name}.unfinished")))
}

fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn remove_tree(path: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error(path)(error)),
        _ => Ok(()),
    }
}
