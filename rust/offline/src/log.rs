//! Reads the commit log's files while a broker may append to them.

use std::io;
use std::ops::Range;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mq_format::message::{BLANK_BYTES, CheckCrc, Head, RecordView};
use mq_log::FileInfo;
use mq_log::fs::{File, OpenOptions, open_own};
use mq_store::StoreError;
use mq_store::inspect::LogFacts;
use mq_store::inspect::OpenFiles;
use mq_store::inspect::log_files::{MISSING_FILES_MAX, length_of};
use mq_store::inspect::scan::{LogRead, RECORD_BYTES_MAX};
use mq_store::inspect::{OffsetFile, offset_files, offset_name};

/// Most files kept open; a scan reads them in order.
const OPEN_FILES_MAX: usize = 16;
/// Bytes read of a record whose length is not known yet.
const FIRST_READ_BYTES: usize = 4 << 10;

/// The commit log in a directory.
#[derive(Debug)]
pub(super) struct LogDirectory {
    path: PathBuf,
    file_bytes: u64,
    start: u64,
    end: u64,
    open: OpenFiles,
}

impl LogDirectory {
    /// Opens `{root}/commitlog`. All its files have one length, apart from one that was truncated.
    pub(super) fn open(root: &Path) -> Result<Self, StoreError> {
        let path = root.join("commitlog");
        let files = offset_files(&path)?;
        // The fallback of 1 byte is harmless: a log without files is never read.
        let recorded = LogFacts::read(root)?.file_bytes;
        let recorded = Some(recorded).filter(|bytes| *bytes > 0);
        let file_bytes = usual_bytes(&files, recorded).unwrap_or(1);
        let range = range_of(&files, file_bytes);
        Ok(Self {
            start: range.start,
            end: range.end,
            file_bytes,
            path,
            open: OpenFiles::new(OPEN_FILES_MAX),
        })
    }

    /// Nominal length of a file, bytes; None for a log without files.
    pub(super) fn file_bytes(&self) -> Option<u64> {
        (self.end > 0).then_some(self.file_bytes)
    }

    /// The current files, in order.
    pub(super) fn files(&self) -> Result<Vec<OffsetFile>, StoreError> {
        offset_files(&self.path)
    }

    /// Opens the file that starts at this offset; None if it is missing.
    fn file(&self, start: u64) -> io::Result<Option<Arc<File>>> {
        let path = self.path.join(offset_name(start));
        let open = || open_own(path, OpenOptions::new().read(true));
        match self.open.get((0, start), open) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// First byte of the file that holds `offset`.
    pub(super) fn file_start(&self, offset: u64) -> u64 {
        offset - offset % self.file_bytes
    }

    /// The whole record at `offset`; None if there is none, or if it names another offset. `size`
    /// is its length according to a queue entry.
    pub(super) fn record(
        &self,
        offset: i64,
        size: Option<i32>,
        check: CheckCrc,
    ) -> io::Result<Option<Vec<u8>>> {
        let Ok(at) = u64::try_from(offset) else {
            return Ok(None);
        };
        let size = size.map(|size| usize::try_from(size).unwrap_or(0));
        let first_read = size.unwrap_or(FIRST_READ_BYTES).min(RECORD_BYTES_MAX);
        let mut bytes = vec![0; first_read.max(BLANK_BYTES)];
        let read = self.read_at(at, &mut bytes)?;
        bytes.truncate(read);
        let Head::Record(total) = Head::parse(&bytes) else {
            return Ok(None);
        };
        if total > RECORD_BYTES_MAX || size.is_some_and(|size| size != total) {
            return Ok(None);
        }
        if total > bytes.len() {
            bytes.resize(total, 0);
            if self.read_at(at, &mut bytes)? < total {
                return Ok(None);
            }
        }
        bytes.truncate(total);
        let record = RecordView::parse(&bytes, check);
        let is_there = record.is_ok_and(|record| record.physical_offset == offset);
        Ok(is_there.then_some(bytes))
    }
}

/// The nominal file length, also if one file was truncated; None if all files are empty.
fn usual_bytes(files: &[OffsetFile], recorded: Option<u64>) -> Option<u64> {
    let files = files.iter().filter(|file| file.bytes > 0);
    let files: Vec<_> = files
        .map(|file| FileInfo {
            start: file.offset,
            length: file.bytes,
        })
        .collect();
    length_of(&files, recorded)
}

/// The range of the files that belong together, from the first byte to the end. A stray file with a
/// far-off name is left out, because a scan of the gap would take forever.
fn range_of(files: &[OffsetFile], file_bytes: u64) -> Range<u64> {
    let mut best: &[OffsetFile] = &[];
    let is_near = |left: &OffsetFile, right: &OffsetFile| {
        (right.offset - left.offset) / file_bytes <= MISSING_FILES_MAX as u64
    };
    for group in files.chunk_by(is_near) {
        if group.len() >= best.len() {
            best = group;
        }
    }
    let end = |file: &OffsetFile| file.offset.saturating_add(file.bytes);
    best.first().map_or(0, |file| file.offset)..best.last().map_or(0, end)
}

impl LogRead for LogDirectory {
    fn min_offset(&self) -> u64 {
        self.start
    }

    /// The end of the last file, including files that a broker added since `open`.
    fn max_offset(&self) -> u64 {
        let files = self.files().unwrap_or_default();
        range_of(&files, self.file_bytes).end.max(self.end)
    }

    fn next_file_start(&self, offset: u64) -> u64 {
        self.file_start(offset).saturating_add(self.file_bytes)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let start = self.file_start(offset);
        let Some(file) = self.file(start)? else {
            return Ok(0);
        };
        let room = usize::try_from(self.file_bytes - (offset - start)).unwrap_or(usize::MAX);
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

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        let (start, next_file) = (self.file_start(offset), self.next_file_start(offset));
        let Some(file) = self.file(start)? else {
            return Ok(next_file);
        };
        let found = file.next_data(offset - start)?;
        Ok(found.map_or(next_file, |at| next_file.min(start + at)))
    }
}
