//! A bounded cache of open files, because a store has more queues than a process has descriptors.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use mq_log::fs::File;

/// Key of a file: the queue's number in this process, and the offset in the file's name.
pub(crate) type FileKey = (u64, u64);

/// Most files closed together: each close is a system call, and the thread that opens a file waits.
const CLOSED_AT_ONCE: usize = 64;

/// Open files; the least recently used ones are closed first. A holder of an `Arc` can still read
/// and write a file that the cache has closed.
#[derive(Debug)]
pub struct OpenFiles {
    limit: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    files: HashMap<FileKey, (Arc<File>, u64)>,
    uses: u64,
    /// Number of calls that forgot files. If it has changed, a file that was just opened may be
    /// removed.
    forgets: u64,
}

impl OpenFiles {
    /// A cache of at most `limit` open files.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            inner: Mutex::default(),
        }
    }

    /// The file, if it is open.
    pub(crate) fn find(&self, key: FileKey) -> Option<Arc<File>> {
        let mut inner = self.inner.lock();
        inner.uses += 1;
        let uses = inner.uses;
        let (file, used) = inner.files.get_mut(&key)?;
        *used = uses;
        Some(Arc::clone(file))
    }

    /// The open file; calls `open` if it is not open.
    pub fn get(
        &self,
        key: FileKey,
        open: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<Arc<File>> {
        if let Some(file) = self.find(key) {
            return Ok(file);
        }
        let forgets = self.inner.lock().forgets;
        let file = Arc::new(open()?);
        let mut inner = self.inner.lock();
        if inner.forgets != forgets {
            // The file may be removed meanwhile. The next use opens it again, if it is there.
            return Ok(file);
        }
        inner.uses += 1;
        let uses = inner.uses;
        let closed = match inner.files.len() >= self.limit {
            true => inner.take_oldest((self.limit / 8 + 1).min(CLOSED_AT_ONCE)),
            false => Vec::new(),
        };
        inner.files.insert(key, (Arc::clone(&file), uses));
        drop(inner);
        drop(closed); // after the unlock, because each close is a system call
        Ok(file)
    }

    /// Like [`OpenFiles::get`], but the file is kept open only if that closes no other file. For a
    /// start, which reads each file once.
    pub(crate) fn get_once(
        &self,
        key: FileKey,
        open: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<Arc<File>> {
        if let Some(file) = self.find(key) {
            return Ok(file);
        }
        if self.inner.lock().files.len() < self.limit {
            return self.get(key, open);
        }
        open().map(Arc::new)
    }

    /// Closes one file, because it was removed.
    pub(crate) fn forget(&self, queue: u64, start: u64) {
        let mut inner = self.inner.lock();
        inner.forgets += 1;
        let closed = inner.files.remove(&(queue, start));
        drop(inner);
        drop(closed);
    }

    /// Closes all files of a queue, because they are about to be removed.
    pub(crate) fn forget_all(&self, queue: u64) {
        let mut inner = self.inner.lock();
        inner.forgets += 1;
        let closed = inner.take(|key, _| key.0 == queue);
        drop(inner);
        drop(closed);
    }
}

impl Inner {
    /// Takes several files, so that not every open pays for the search for the oldest.
    fn take_oldest(&mut self, count: usize) -> Vec<Arc<File>> {
        let mut uses: Vec<u64> = self.files.values().map(|(_, used)| *used).collect();
        let at = count.min(uses.len()).saturating_sub(1);
        let (_, oldest, _) = uses.select_nth_unstable(at);
        let oldest = *oldest;
        self.take(|_, used| used <= oldest)
    }

    fn take(&mut self, is_meant: impl Fn(&FileKey, u64) -> bool) -> Vec<Arc<File>> {
        let files = &mut self.files;
        let taken = files.extract_if(|key, (_, used)| is_meant(key, *used));
        taken.map(|(_, (file, _))| file).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_are_closed() {
        let files = OpenFiles::new(8);
        let open = |key| files.get(key, || File::open_directory("/")).unwrap();
        let first = open((0, 0));
        for start in 1..8 {
            open((0, start));
        }
        open((0, 0));
        open((0, 8));
        let is_open = |key| files.inner.lock().files.contains_key(&key);
        assert!(is_open((0, 0)), "used last but one");
        assert!(!is_open((0, 1)) && !is_open((0, 2)), "used first");
        assert!(files.inner.lock().files.len() <= 8);
        files.forget(0, 8);
        assert!(!is_open((0, 8)));
        files.forget_all(0);
        assert!(files.inner.lock().files.is_empty());
        first.metadata().unwrap();
    }

    #[test]
    fn a_file_removed_while_it_is_opened_is_not_kept() {
        let files = OpenFiles::new(8);
        let removed = |forget: &dyn Fn()| {
            let open = || {
                let file = File::open_directory("/");
                forget();
                file
            };
            files.get((7, 0), open).unwrap();
            files.find((7, 0)).is_none()
        };
        assert!(removed(&|| files.forget(7, 0)));
        assert!(removed(&|| files.forget_all(7)));
        assert!(!removed(&|| ()));
    }

    #[test]
    fn a_file_that_is_used_once_closes_no_other() {
        let files = OpenFiles::new(2);
        let open = || File::open_directory("/");
        for start in 0..4 {
            files.get_once((0, start), open).unwrap();
        }
        let is_open: Vec<_> = (0..4)
            .map(|start| files.find((0, start)).is_some())
            .collect();
        assert_eq!(is_open, [true, true, false, false]);
    }

    #[test]
    fn a_failed_open_is_not_kept() {
        let files = OpenFiles::new(8);
        let failed = files.get((0, 0), || Err(io::Error::other("no")));
        assert!(failed.is_err());
        files.get((0, 0), || File::open_directory("/")).unwrap();
    }
}
