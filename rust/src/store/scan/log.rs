//! The commit log's files, read as they are while somebody else may append to them.

use std::io;
use std::path::{Path, PathBuf};

use crate::log::fs::File;
use crate::store::files::{offset_files, offset_name};
use crate::store::open_files::OpenFiles;
use crate::store::types::StoreError;
use crate::store::walk::LogRead;

/// Files kept open; a scan goes through them in order.
const OPEN_FILES_MAX: usize = 16;

/// A log in a directory.
#[derive(Debug)]
pub(super) struct LogDirectory {
    path: PathBuf,
    file_bytes: u64,
    start: u64,
    end: u64,
    open: OpenFiles,
}

impl LogDirectory {
    /// Looks at `{root}/commitlog`; the first file's length is taken for every file's.
    pub(super) fn open(root: &Path) -> Result<Self, StoreError> {
        let path = root.join("commitlog");
        let files = offset_files(&path)?;
        let file_bytes = files.iter().map(|file| file.bytes).find(|bytes| *bytes > 0);
        Ok(Self {
            start: files.first().map_or(0, |file| file.offset),
            end: files.last().map_or(0, |file| file.offset + file.bytes),
            // A log without files is never read.
            file_bytes: file_bytes.unwrap_or(1),
            path,
            open: OpenFiles::new(OPEN_FILES_MAX),
        })
    }

    /// Length of a file, bytes; None for a log without files.
    pub(super) fn file_bytes(&self) -> Option<u64> {
        (self.end > 0).then_some(self.file_bytes)
    }
}

impl LogRead for LogDirectory {
    fn min_offset(&self) -> u64 {
        self.start
    }

    /// Behind the last file, also one that a broker added since.
    fn max_offset(&self) -> u64 {
        let files = offset_files(&self.path).unwrap_or_default();
        let end = files.last().map_or(0, |file| file.offset + file.bytes);
        end.max(self.end)
    }

    fn next_file_start(&self, offset: u64) -> u64 {
        offset - offset % self.file_bytes + self.file_bytes
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let start = offset - offset % self.file_bytes;
        let path = self.path.join(offset_name(start));
        let file = match self.open.get((0, start), || File::open(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            other => other?,
        };
        let room = usize::try_from(start + self.file_bytes - offset).unwrap_or(usize::MAX);
        let count = out.len().min(room);
        let mut filled = 0;
        while filled < count {
            let at = offset - start + filled as u64;
            match file.read_at(&mut out[filled..count], at) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}
