//! The store's lock: one broker per directory, mqstack or RocketMQ.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::files::io_error;
use crate::types::StoreError;
use mq_log::fs::{File, OpenOptions, open_own};

/// The content that Java writes into the file.
const CONTENT: &[u8] = b"lock";

/// An exclusive lock on byte 0 of `{root}/lock`, held until dropped.
///
/// It is an open-file-description (OFD) lock. A POSIX lock would be lost as soon as any code of the
/// process closed that file. Java's POSIX lock conflicts with it, as it should.
#[derive(Debug)]
pub struct StoreLock {
    file: File,
}

impl StoreLock {
    /// Takes the lock, creating the file if needed; [`StoreError::Locked`] if it is held.
    pub fn acquire(root: &Path) -> Result<Self, StoreError> {
        let path = root.join("lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let file = open_own(&path, &mut options).map_err(io_error(&path))?;
        match set_first_byte(&file, libc::F_WRLCK) {
            Ok(()) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
                return Err(StoreError::Locked {
                    root: root.display().to_string(),
                });
            }
            Err(error) => return Err(io_error(&path)(error)),
        }
        file.write_all_at(CONTENT, 0).map_err(io_error(&path))?;
        held::add(file.as_raw_fd());
        Ok(Self { file })
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        if held::remove(self.file.as_raw_fd()) {
            // A child that was forked just now shares the open file until it closes its copy, so
            // closing ours would not end the lock at once. Closing ends it if this fails.
            let _ = set_first_byte(&self.file, libc::F_UNLCK);
        }
    }
}

/// Whether a process holds the lock of the store at `root`. Takes no lock and creates no file.
pub fn is_held(root: &Path) -> Result<bool, StoreError> {
    let path = root.join("lock");
    let file = match open_own(&path, OpenOptions::new().read(true)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(io_error(&path)(error)),
    };
    let mut request = first_byte(libc::F_WRLCK);
    // SAFETY: the descriptor is open for the call, and `request` lives until it returns.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut request) };
    match answer {
        -1 => Err(io_error(&path)(io::Error::last_os_error())),
        _ => Ok(request.l_type != libc::F_UNLCK as libc::c_short),
    }
}

/// Describes a lock of byte 0 for `fcntl`, of this type.
fn first_byte(of_type: libc::c_int) -> libc::flock {
    // SAFETY: an all-zero `flock` is a valid value of this plain C struct.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = of_type as libc::c_short;
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request.l_len = 1;
    request
}

/// Takes or gives up the lock of byte 0.
fn set_first_byte(file: &File, of_type: libc::c_int) -> io::Result<()> {
    let request = first_byte(of_type);
    // SAFETY: the descriptor is open for the call, and the kernel only reads `request`.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &request) };
    match answer {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Descriptors of held locks. A forked child shares the open file and thus the lock, and would keep
/// it after the broker has ended. So the child gives it up.
mod held {
    use super::{AtomicI32, Once, Ordering, RawFd};

    const FREE: RawFd = -1;
    /// More stores than a process opens. A lock without a slot still works, but a child keeps it.
    static DESCRIPTORS: [AtomicI32; 64] = [const { AtomicI32::new(FREE) }; 64];
    static REGISTER: Once = Once::new();

    pub(crate) fn add(descriptor: RawFd) {
        REGISTER.call_once(|| {
            // SAFETY: the handler only reads atomics and makes system calls, as required after a
            // fork.
            unsafe { libc::pthread_atfork(None, None, Some(close_in_child)) };
        });
        let _ = replace(FREE, descriptor);
    }

    /// False if the lock has no slot, or was given up by this child.
    pub(crate) fn remove(descriptor: RawFd) -> bool {
        replace(descriptor, FREE)
    }

    fn replace(old: RawFd, new: RawFd) -> bool {
        DESCRIPTORS.iter().any(|slot| {
            slot.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        })
    }

    /// Replaces the lock's file by /dev/null, so that the descriptor stays valid for its owner's
    /// drop.
    extern "C" fn close_in_child() {
        for slot in &DESCRIPTORS {
            let descriptor = slot.swap(FREE, Ordering::AcqRel);
            if descriptor != FREE {
                // SAFETY: open, dup2 and close are allowed after fork; `descriptor` is the
                // child's copy of one that the parent's `StoreLock` owns.
                unsafe {
                    let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
                    libc::dup3(null, descriptor, libc::O_CLOEXEC);
                    libc::close(null);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_refused_until_the_first_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let first = StoreLock::acquire(root.path()).unwrap();
        let refused = StoreLock::acquire(root.path()).unwrap_err();
        assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
        assert!(is_held(root.path()).unwrap());
        drop(first);
        assert!(!is_held(root.path()).unwrap());
        StoreLock::acquire(root.path()).unwrap();
        let content = std::fs::read(root.path().join("lock")).unwrap();
        assert_eq!(content, CONTENT);
    }

    #[test]
    fn a_forked_child_does_not_keep_the_lock() {
        // SAFETY: the child does what is allowed after a fork only.
        a_child_does_not_keep_the_lock(|| unsafe { libc::fork() });
    }

    #[test]
    fn a_child_that_was_forked_just_now_does_not_keep_the_lock() {
        // As between the fork and its handlers, which this call leaves out.
        // SAFETY: the child does what is allowed after a fork only.
        a_child_does_not_keep_the_lock(|| unsafe {
            libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t
        });
    }

    fn a_child_does_not_keep_the_lock(fork: fn() -> libc::pid_t) {
        let root = tempfile::tempdir().unwrap();
        let lock = StoreLock::acquire(root.path()).unwrap();
        let mut ends = [0; 2];
        let mut byte = [0_u8];
        // SAFETY: `ends` has room for two descriptors. The child calls only functions that are
        // allowed after a fork of a multi-threaded process, and exits without running its parent's
        // code.
        let child = unsafe {
            let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
            let made = libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr());
            assert_eq!(made, 0);
            match fork() {
                0 => {
                    libc::close(ends[1]);
                    // Report that the child runs, and stay until the parent closes its end.
                    libc::write(ends[0], byte.as_ptr().cast(), 1);
                    libc::read(ends[0], byte.as_mut_ptr().cast(), 1);
                    libc::_exit(0)
                }
                child => child,
            }
        };
        assert!(child > 0);
        // SAFETY: the descriptors are this test's, and `byte` has room for one byte.
        unsafe {
            libc::close(ends[0]);
            assert_eq!(libc::read(ends[1], byte.as_mut_ptr().cast(), 1), 1);
        }
        StoreLock::acquire(root.path()).unwrap_err();
        drop(lock);
        StoreLock::acquire(root.path()).unwrap();
        // SAFETY: the descriptor is this test's, and the child is its own and was not waited for.
        unsafe {
            libc::close(ends[1]);
            assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
        }
    }

    #[test]
    fn closing_the_file_elsewhere_does_not_lose_the_lock() {
        let root = tempfile::tempdir().unwrap();
        let _first = StoreLock::acquire(root.path()).unwrap();
        drop(std::fs::File::open(root.path().join("lock")).unwrap());
        StoreLock::acquire(root.path()).unwrap_err();
    }
}
