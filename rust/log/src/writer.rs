//! The one writer at the end of the log.

use std::io;
use std::sync::Arc;

use thiserror::Error;

use super::prealloc::{Preallocation, Stall};
use super::segment::Segment;
use super::segments::Segments;
use mq_base::clock::Clock;

/// Why an append failed.
#[derive(Debug, Error)]
pub enum WriteError {
    /// There are no blocks or no file for it. The log is unchanged; a later attempt may succeed.
    #[error("no room: {0}")]
    NoRoom(#[source] io::Error),
    /// The disk has not created the file or the blocks yet. The log is unchanged. The writer's
    /// [`Stall`] says when to try again.
    #[error("the disk is slow to make room")]
    NotReady,
    /// Bytes may be partly written, so nothing may be appended after them.
    #[error("write failed: {0}")]
    Failed(#[source] io::Error),
}

/// Appends to the log. `&mut self` ensures one append at a time.
pub struct Writer {
    segments: Arc<Segments>,
    last: Option<Arc<Segment>>,
    position: u64,
    step: u64,
    prealloc: Arc<Preallocation>,
    writes_later: bool,
}

impl Writer {
    /// Creates a writer at the end of the log. Blocks are allocated `step` bytes at a time; `clock`
    /// measures stalls.
    pub fn new(segments: Arc<Segments>, step: u64, clock: Arc<dyn Clock>) -> Self {
        let position = segments.max_offset();
        // If the log ends with the last file, the next append creates a new file.
        let last = segments.last().filter(|last| position < last.end());
        Self {
            segments,
            last,
            position,
            step,
            prealloc: Arc::new(Preallocation::new(clock)),
            writes_later: false,
        }
    }

    /// Leaves writing to [`Segments::write_out`], which writes many records at once. For a log
    /// whose readers and waiters can wait until the next flush.
    #[must_use]
    pub fn writing_later(mut self) -> Self {
        self.writes_later = true;
        self
    }

    /// Offset of the next byte.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes left in the current file; the size of a whole file before the first write.
    pub fn remaining(&self) -> u64 {
        self.last
            .as_ref()
            .map_or(self.segments.file_size(), |last| last.end() - self.position)
    }

    /// The log.
    pub fn segments(&self) -> &Arc<Segments> {
        &self.segments
    }

    /// Number of bytes for which blocks are allocated at a time.
    pub(super) fn step(&self) -> u64 {
        self.step
    }

    /// Returns the writer's stall: while it is on, appends that need the disk fail with `NotReady`.
    pub fn stall(&self) -> Arc<Stall> {
        Arc::clone(self.prealloc.stall())
    }

    /// State that the writer shares with the allocation thread.
    pub(super) fn prealloc(&self) -> &Arc<Preallocation> {
        &self.prealloc
    }

    /// Makes an empty log begin at `start`, a multiple of the file size.
    pub fn begin_at(&mut self, start: u64) {
        debug_assert!(self.last.is_none() && start.is_multiple_of(self.segments.file_size()));
        self.position = start;
        self.segments.begin_at(start);
    }

    /// Writes bytes that another log has at the same offsets. They may end at the end of the file,
    /// with the filler of that log; the next write then begins a new file.
    pub fn write_copy(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.write(&[bytes])?;
        self.last.take_if(|last| last.end() == self.position);
        Ok(())
    }

    /// Writes the slices one after another into the current file and advances the end of the log.
    /// The caller has checked that they fit into [`Writer::remaining`].
    pub fn write(&mut self, slices: &[&[u8]]) -> Result<(), WriteError> {
        let (position, count) = (self.position, total(slices));
        self.ready_file(count).map_err(no_room)?;
        let last = self.last.take();
        let appended = last
            .iter()
            .try_for_each(|last| self.append_to(last, slices, position + count));
        self.last = last;
        appended.map_err(WriteError::Failed)
    }

    /// Ends the current file with `filler` and continues in a new file.
    pub fn roll(&mut self, filler: &[&[u8]]) -> Result<(), WriteError> {
        let full = Arc::clone(self.ready_file(total(filler)).map_err(no_room)?);
        // The new file is created first: if that fails, the log is unchanged.
        let next = self.publish_new_file(full.end()).map_err(no_room)?;
        self.append_to(&full, filler, full.end())
            .map_err(WriteError::Failed)?;
        self.last = Some(next);
        Ok(())
    }

    /// Writes the slices, or leaves them to a later write, and advances the end of the log.
    fn append_to(&mut self, segment: &Arc<Segment>, slices: &[&[u8]], end: u64) -> io::Result<()> {
        if self.writes_later {
            self.segments
                .push_to_buffer(segment, self.position, slices, end);
        } else {
            let at = self.position - segment.start();
            segment.disk().write_at(at, slices)?;
            self.segments.advance_to(end);
        }
        self.position = end;
        self.prealloc.passed(end);
        Ok(())
    }

    /// Returns the current file, ready for `count` bytes at the writer's position.
    fn ready_file(&mut self, count: u64) -> io::Result<&Arc<Segment>> {
        let last = match self.last.take() {
            Some(last) => last,
            None => self.publish_new_file(self.position)?,
        };
        let last = self.last.insert(last);
        let end = self.position + count;
        if end > last.ready() {
            self.prealloc.room_in(last, end)?;
        }
        Ok(last)
    }

    fn publish_new_file(&self, start: u64) -> io::Result<Arc<Segment>> {
        let files = self.segments.files();
        let size = self.segments.file_size();
        let make = || {
            let disk = files.prepare(start, size)?;
            files.publish(start)?;
            Ok(Segment::new(start, size, disk, true))
        };
        let segment = self.prealloc.next_file(start, files, make)?;
        self.segments.push(Arc::clone(&segment));
        Ok(segment)
    }
}

fn no_room(error: io::Error) -> WriteError {
    match error.kind() {
        io::ErrorKind::WouldBlock => WriteError::NotReady,
        _ => WriteError::NoRoom(error),
    }
}

fn total(slices: &[&[u8]]) -> u64 {
    slices.iter().map(|slice| slice.len() as u64).sum()
}
