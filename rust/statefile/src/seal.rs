//! Checksums of the state files, kept apart from RocketMQ's directories, in `{root}/mqstack/state`.
//!
//! A checksum file has one line per version of a state file: CRC-32, length in bytes and
//! modification time in nanoseconds since the epoch. The line of a new version is durable before
//! the version gets its name, and the line of the version it replaces stays. So every file that a
//! crash can leave has its line. Renames and links keep the modification time, so a file with
//! another time was written by another program.

use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::directories::{create_directory, sync_directory};
use crate::error::{FileError, io_error};
use mq_log::fs::{self, File, Metadata};

/// Largest checksum file, bytes: three lines, with room to spare.
const BYTES_MAX: u64 = 4096;

/// Identifies the bytes that a file held when we wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    crc: u32,
    bytes: u64,
    modified_ns: u64,
}

/// The judgement about a file according to its checksum file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The file has the bytes that we wrote.
    Ours,
    /// Another program wrote the file, or it has no checksum.
    Unknown,
    /// The file was not written since we wrote it, but has other bytes.
    Damaged,
}

impl Seal {
    /// The seal of an open file with the content `bytes`.
    pub fn of(file: &File, bytes: &[u8]) -> io::Result<Self> {
        Ok(Self {
            crc: crc32fast::hash(bytes),
            bytes: bytes.len() as u64,
            modified_ns: nanoseconds(&file.metadata()?)?,
        })
    }

    /// Whether the sealed file has this modification time.
    pub fn is_of(&self, modified_ns: u64) -> bool {
        self.modified_ns == modified_ns
    }

    fn line(&self) -> String {
        let body = format!("{:08x} {} {}", self.crc, self.bytes, self.modified_ns);
        format!("{body} {:08x}\n", crc32fast::hash(body.as_bytes()))
    }

    /// None if the line itself is damaged.
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

/// Modification time of a file, nanoseconds since the epoch; None if it is missing.
pub fn modified_ns(path: &Path) -> io::Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(metadata) => nanoseconds(&metadata).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Judges a file with the seal `seen`.
pub fn verdict(known: &[Seal], seen: &Seal) -> Verdict {
    if known.contains(seen) {
        return Verdict::Ours;
    }
    // Two saves may have the same time, because file systems count it in steps of some
    // milliseconds.
    let same_time = known.iter().any(|seal| seal.is_of(seen.modified_ns));
    match same_time {
        true => Verdict::Damaged,
        false => Verdict::Unknown,
    }
}

/// The checksum file of a state file.
pub fn path_of(own: &Path, name: &str) -> PathBuf {
    own.join("state").join(format!("{name}.sum"))
}

/// The valid lines of a checksum file; empty if it is missing.
pub fn read(path: &Path) -> Result<Vec<Seal>, FileError> {
    let bytes = match fs::read_own(path, BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error(path)(error)),
    };
    let text = String::from_utf8_lossy(&bytes);
    let seals: Vec<Seal> = text.lines().filter_map(Seal::parse).collect();
    if seals.len() != text.lines().count() {
        tracing::warn!(path = %path.display(), "ignored a damaged line of a checksum file");
    }
    Ok(seals)
}

/// Whether a checksum file has damaged lines.
pub fn has_damaged_lines(path: &Path) -> io::Result<bool> {
    let bytes = match fs::read_own(path, BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        bytes => bytes?,
    };
    let text = String::from_utf8_lossy(&bytes);
    // We write lower-case digits only, so upper-case ones are damage although they can be parsed.
    let is_ours = |line: &str| Seal::parse(line).is_some_and(|seal| seal.line().trim_end() == line);
    Ok(bytes.is_empty() || !text.lines().all(is_ours))
}

/// Replaces the checksum file and syncs it.
pub fn write(path: &Path, seals: &[Seal]) -> Result<(), FileError> {
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
