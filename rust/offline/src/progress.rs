//! Reports the progress of long work to the caller, which may stop it.

use std::io;

use parking_lot::Mutex;

use mq_store::StoreError;
use mq_store::inspect::scan::LogRead;

/// A phase of long work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Copying files.
    Copy,
    /// Checking the log record by record.
    Check,
    /// Building the files that are derived from the log.
    Build,
}

impl Step {
    /// The word that Python receives.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Check => "check",
            Self::Build => "build",
        }
    }
}

/// Receives the step, the bytes done and the total bytes. Returning false stops the work.
pub type Progress<'a> = dyn FnMut(Step, u64, u64) -> bool + Send + 'a;

/// A progress callback that several parts of the work share.
pub(super) struct ProgressReporter<'a> {
    progress: Mutex<&'a mut Progress<'a>>,
}

impl<'a> ProgressReporter<'a> {
    pub(super) fn new(progress: &'a mut Progress<'a>) -> Self {
        Self {
            progress: Mutex::new(progress),
        }
    }

    /// Reports progress; fails if the caller wants to stop.
    pub(super) fn report(&self, step: Step, done: u64, all: u64) -> io::Result<()> {
        let mut progress = self.progress.lock();
        if progress(step, done, all) {
            return Ok(());
        }
        Err(io::Error::other("stopped by the caller"))
    }
}

/// The error for stopped work.
pub(super) fn stopped(source: io::Error) -> StoreError {
    StoreError::Io {
        path: "store".into(),
        source,
    }
}

/// A log that reports how far it has been read.
pub(super) struct ReportedLog<'a, 't, L> {
    pub(super) log: &'a L,
    pub(super) reporter: &'a ProgressReporter<'t>,
    pub(super) step: Step,
    /// The offset at which reading ends.
    pub(super) end: u64,
}

impl<L: LogRead> LogRead for ReportedLog<'_, '_, L> {
    fn min_offset(&self) -> u64 {
        self.log.min_offset()
    }

    fn max_offset(&self) -> u64 {
        self.log.max_offset()
    }

    fn next_file_start(&self, offset: u64) -> u64 {
        self.log.next_file_start(offset)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let start = self.min_offset();
        let (done, all) = (offset.saturating_sub(start), self.end.saturating_sub(start));
        self.reporter.report(self.step, done.min(all), all)?;
        self.log.read_at(offset, out)
    }
}
