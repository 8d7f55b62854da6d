//! Reads that must not wait for the disk.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use crate::derive::queues::kept::{Kept, KeptBytes};
use crate::derive::queues::open_files::OpenFiles;
use crate::derive::queues::queue_files::{Dirty, QueueFiles, SharedQueueFiles};
use crate::types::ReadMode;
use mq_log::{Access, IoHook, Operation, Target, watch};

const BYTES: &[u8] = b"entries";

/// Files of a queue that contain [`BYTES`].
fn written(root: &Path) -> QueueFiles {
    std::fs::create_dir_all(root.join("mqstack")).unwrap();
    let shared = SharedQueueFiles {
        root: root.to_owned(),
        access: Access::Append,
        open: OpenFiles::new(8),
        pending: AtomicI64::new(0),
        kept: KeptBytes::default(),
        durable_to: AtomicI64::new(i64::MAX),
    };
    let files = QueueFiles {
        number: 0,
        directory: root.join("consumequeue/T/0"),
        file_bytes: 4_096,
        shared: Arc::new(shared),
        kept: Kept::default(),
    };
    files.write(0, BYTES, &mut Dirty::default()).unwrap();
    files
}

fn read(files: &QueueFiles, mode: ReadMode) -> Option<Vec<u8>> {
    let mut out = vec![0; BYTES.len()];
    let count = files.read(0, mode, &mut out).unwrap()?;
    out.truncate(count);
    Some(out)
}

#[test]
fn a_closed_file_is_opened_by_a_read_that_may_wait() {
    let root = tempfile::tempdir().unwrap();
    let files = written(root.path());
    files.shared.open.forget_all(files.number);
    assert_eq!(read(&files, ReadMode::NoWait), None);
    assert_eq!(read(&files, ReadMode::Wait).unwrap(), BYTES);
    assert_eq!(read(&files, ReadMode::NoWait).unwrap(), BYTES);
}

/// A kernel, or a file system, without RWF_NOWAIT.
#[derive(Debug)]
struct NoFlag;

impl IoHook for NoFlag {
    fn before(&self, _target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64> {
        match operation {
            Operation::Read(..) => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            _ => Ok(0),
        }
    }

    fn after(&self, _target: Target<'_>, _operation: &Operation<'_>, _began: u64) {}
}

#[test]
fn without_rwf_nowait_a_read_that_must_not_wait_fails() {
    let root = tempfile::tempdir().unwrap();
    let _watch = watch(root.path(), Arc::new(NoFlag));
    let files = written(root.path());
    assert_eq!(read(&files, ReadMode::NoWait), None);
}
