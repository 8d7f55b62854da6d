//! Checksums of the state files, kept apart from RocketMQ's folders, in `{root}/mqstack/state`.
//!
//! A line per version of a file: CRC-32, length in bytes and time of change in nanoseconds since
//! the epoch. The line of a new version is durable before the version gets its name, and the line
//! of the version it replaces stays: whatever a crash leaves has its line. A rename and a link keep
//! the time of change, so a file of another time was written by somebody else.

use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::files::{create_directory, io_error, sync_directory};
use crate::types::StoreError;
use mq_log::fs::{self, File, Metadata};

/// What a side file may hold at most, bytes: three lines, and room.
const BYTES_MAX: u64 = 4096;

/// Which bytes a file held when we wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    crc: u32,
    bytes: u64,
    modified_ns: u64,
}

/// What the side file says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// These are the bytes we wrote.
    Ours,
    /// Somebody else wrote the file, or it has no side file.
    Unknown,
    /// The file was not written since, and has other bytes.
    Damaged,
}

impl Seal {
    /// Seals an open file that holds `bytes`.
    pub fn of(file: &File, bytes: &[u8]) -> io::Result<Self> {
        Ok(Self {
            crc: crc32fast::hash(bytes),
            bytes: bytes.len() as u64,
            modified_ns: nanoseconds(&file.metadata()?)?,
        })
    }

    /// Whether the sealed file was last changed at this time.
    pub(crate) fn is_of(&self, modified_ns: u64) -> bool {
        self.modified_ns == modified_ns
    }

    fn line(&self) -> String {
        let body = format!("{:08x} {} {}", self.crc, self.bytes, self.modified_ns);
        format!("{body} {:08x}\n", crc32fast::hash(body.as_bytes()))
    }

    /// None for a line that is damaged itself.
    fn parse(line: &str) -> Option<Self> {
        let (body, check) = line.rsplit_once(' ')?;
        if u32::from_str_radix(check, 16).ok()? != crc32fast::hash(body.as_bytes()) {
            return None;
        }
        let mut words = body.split(' ');
        let seal = Self {
            crc: u32::from_str_radix(words.next()?, 16).ok()?,
            bytes: words.next()?.parse().ok()?,
            modified_ns: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(seal)
    }
}

fn nanoseconds(metadata: &Metadata) -> io::Result<u64> {
    let since = metadata.modified()?.duration_since(UNIX_EPOCH);
    Ok(u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX))
}

/// When the file at a path was last changed, nanoseconds since the epoch; None without a file.
pub(crate) fn modified_ns(path: &Path) -> io::Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(metadata) => nanoseconds(&metadata).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What is known of a file that looks like `seen`.
pub fn verdict(known: &[Seal], seen: &Seal) -> Verdict {
    if known.contains(seen) {
        return Verdict::Ours;
    }
    // Two saves may have one time: file systems count it in steps of some milliseconds.
    let same_time = known.iter().any(|seal| seal.is_of(seen.modified_ns));
    match same_time {
        true => Verdict::Damaged,
        false => Verdict::Unknown,
    }
}

/// Where the side file of a state file is.
pub fn path_of(own: &Path, name: &str) -> PathBuf {
    own.join("state").join(format!("{name}.sum"))
}

/// The lines of a side file; a missing one has none, damaged lines are left out.
pub fn read(path: &Path) -> Result<Vec<Seal>, StoreError> {
    let bytes = match fs::read_own(path, BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error(path)(error)),
    };
    let text = String::from_utf8_lossy(&bytes);
    let seals: Vec<Seal> = text.lines().filter_map(Seal::parse).collect();
    if seals.len() != text.lines().count() {
        tracing::warn!(path = %path.display(), "damaged checksum line: left out");
    }
    Ok(seals)
}

/// Whether a side file has lines that are damaged themselves.
pub fn has_damaged_lines(path: &Path) -> io::Result<bool> {
    let bytes = match fs::read_own(path, BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        bytes => bytes?,
    };
    let text = String::from_utf8_lossy(&bytes);
    // Digits in capitals are no lines of ours, though they can be read.
    let is_ours = |line: &str| Seal::parse(line).is_some_and(|seal| seal.line().trim_end() == line);
    Ok(bytes.is_empty() || !text.lines().all(is_ours))
}

/// Replaces the side file, durably.
pub(crate) fn write(path: &Path, seals: &[Seal]) -> Result<(), StoreError> {
    let Some(directory) = path.parent() else {
        return Ok(());
    };
    create_directory(directory)?;
    let text: String = seals.iter().map(Seal::line).collect();
    let temporary = path.with_extension("sum.tmp");
    let file = fs::create_own(&temporary).map_err(io_error(&temporary))?;
    file.write_all_at(text.as_bytes(), 0)
        .and_then(|()| file.sync_all())
        .map_err(io_error(&temporary))?;
    fs::rename(&temporary, path).map_err(io_error(path))?;
    sync_directory(directory)
}
