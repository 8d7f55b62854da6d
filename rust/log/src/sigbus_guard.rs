//! Maps that survive the loss of a page.
//!
//! A page of a mapped file is lost when the file is truncated or the disk cannot read the page. The
//! next access raises SIGBUS, which by default ends the process. The handler here replaces the lost
//! page by a page of zeros, so that the access succeeds, and marks the map as damaged. After each
//! use of a map, its user calls [`GuardedMmap::check`] and treats a damaged map as an I/O error.
//!
//! Faults outside of guarded maps are passed to the previous handler.

use std::io;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    compiler_fence, fence,
};

use libc::{SIGBUS, c_int, c_void, siginfo_t};
use memmap2::{MmapMut, MmapRaw};
use parking_lot::Mutex;

/// Slots in one piece of the table. A store has a few maps, one with many log files has more.
const PIECE_SLOTS: usize = 64;

/// One guarded map. The handler reads slots without a lock; `start` is 0 in a free slot.
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    is_damaged: AtomicBool,
}

impl Slot {
    const fn free() -> Self {
        Self {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            is_damaged: AtomicBool::new(false),
        }
    }
}

/// A part of the table; parts are added and never removed.
struct Piece {
    slots: [Slot; PIECE_SLOTS],
    next: AtomicPtr<Piece>,
}

impl Piece {
    const fn new() -> Self {
        Self {
            slots: [const { Slot::free() }; PIECE_SLOTS],
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn next(&self) -> Option<&'static Self> {
        // SAFETY: the pointer is null, or it points to a leaked piece.
        unsafe { self.next.load(Acquire).as_ref() }
    }
}

static TABLE: Piece = Piece::new();
/// Held while a map is added, because the table and the signal handler may change then.
static ADDING: Mutex<()> = Mutex::new(());
/// Action of SIGBUS before ours; leaked, because the handler may read it at any time.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
/// Whether a signal was already passed to the previous handler, which is installed again since
/// then.
static IS_PASSED_ON: AtomicBool = AtomicBool::new(false);
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// A map that knows whether one of its pages was lost.
#[derive(Debug)]
pub struct GuardedMmap<M> {
    // Field order matters: the guard is dropped first, because another map may get the same
    // addresses as soon as this one is unmapped.
    guard: Guard,
    map: M,
}

#[derive(Debug)]
struct Guard(&'static Slot);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(0, SeqCst);
    }
}

impl<M> GuardedMmap<M> {
    fn new(map: M, start: *const u8, bytes: usize) -> Self {
        let _adding = ADDING.lock();
        install();
        let slot = free_slot();
        slot.is_damaged.store(false, Relaxed);
        slot.end.store(start as usize + bytes, Relaxed);
        slot.start.store(start as usize, SeqCst);
        Self {
            guard: Guard(slot),
            map,
        }
    }

    /// Whether every page that was read or written so far came from the file.
    #[inline]
    pub fn is_whole(&self) -> bool {
        // The compiler must not move an access to the map to a place after this check of the mark.
        // Nor may the processor move a read there: another thread may have lost the page and set
        // the mark. An acquiring load alone holds back only what follows it.
        compiler_fence(SeqCst);
        fence(Acquire);
        !self.guard.0.is_damaged.load(Relaxed)
    }

    /// Returns an error after a page was lost. Call it after using the map.
    #[inline]
    pub fn check(&self) -> io::Result<()> {
        match self.is_whole() {
            true => Ok(()),
            false => Err(lost()),
        }
    }
}

impl From<MmapRaw> for GuardedMmap<MmapRaw> {
    fn from(map: MmapRaw) -> Self {
        let (start, bytes) = (map.as_ptr(), map.len());
        Self::new(map, start, bytes)
    }
}

impl From<MmapMut> for GuardedMmap<MmapMut> {
    fn from(map: MmapMut) -> Self {
        let (start, bytes) = (map.as_ptr(), map.len());
        Self::new(map, start, bytes)
    }
}

impl<M> Deref for GuardedMmap<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.map
    }
}

impl<M> DerefMut for GuardedMmap<M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.map
    }
}

#[cold]
fn lost() -> io::Error {
    io::Error::other("a mapped page is gone: the file was truncated or its disk failed")
}

/// Returns a free slot; adds a piece to the table if no slot is free.
fn free_slot() -> &'static Slot {
    let mut piece: &'static Piece = &TABLE;
    loop {
        let is_free = |slot: &&'static Slot| slot.start.load(Relaxed) == 0;
        if let Some(slot) = piece.slots.iter().find(is_free) {
            return slot;
        }
        piece = piece.next().unwrap_or_else(|| {
            let next = Box::leak(Box::new(Piece::new()));
            piece.next.store(next, Release);
            next
        });
    }
}

/// Installs our handler unless it is installed already. Another handler, such as Python's
/// faulthandler, may have been installed after ours.
fn install() {
    let ours = on_sigbus as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
    let mut found = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: reads the action of a signal that exists, into memory of the right type.
    if unsafe { libc::sigaction(SIGBUS, ptr::null(), found.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: all zeros are a valid action, and the system has filled it in.
    let found = unsafe { found.assume_init() };
    if found.sa_sigaction == ours {
        return;
    }
    PREVIOUS.store(Box::leak(Box::new(found)), Release);
    IS_PASSED_ON.store(false, Relaxed);
    PAGE_BYTES.store(rustix::param::page_size(), Relaxed);
    // SAFETY: as above; the handler calls only functions that are allowed in a handler.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = ours;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(SIGBUS, &raw const action, ptr::null_mut());
    }
}

/// Handles SIGBUS. It can interrupt any code of ours, so it calls only the system.
extern "C" fn on_sigbus(_signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    // SAFETY: the system gives a valid `info`; `errno` is the interrupted thread's own.
    unsafe {
        let errno = *libc::__errno_location();
        let is_fault = (*info).si_code > 0;
        if !(is_fault && replace((*info).si_addr() as usize)) {
            pass_on(is_fault);
        }
        *libc::__errno_location() = errno;
    }
}

/// Marks the map that holds an address and maps zeros there; false if no map holds it.
fn replace(address: usize) -> bool {
    let Some(slot) = slot_of(address) else {
        return false;
    };
    // The mark is set first, so that a thread that reads the zeros also finds the mark.
    slot.is_damaged.store(true, SeqCst);
    let bytes = PAGE_BYTES.load(Relaxed);
    let page = (address - address % bytes) as *mut c_void;
    // SAFETY: the page belongs to one of our maps. The user of the map keeps it alive, and the map
    // owns all its pages until it is unmapped as a whole.
    let mapped = unsafe {
        libc::mmap(
            page,
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    mapped == page
}

fn slot_of(address: usize) -> Option<&'static Slot> {
    let mut piece = Some(&TABLE);
    while let Some(slots) = piece {
        for slot in &slots.slots {
            let start = slot.start.load(SeqCst);
            let is_in = start != 0 && (start..slot.end.load(SeqCst)).contains(&address);
            // `start` is unchanged, so `end` belongs to it.
            if is_in && slot.start.load(SeqCst) == start {
                return Some(slot);
            }
        }
        piece = slots.next();
    }
    None
}

/// Passes the signal to the previous handler. The second time, the default action ends the process:
/// a previous handler that restores the handler before itself may have installed ours again.
fn pass_on(is_fault: bool) {
    // SAFETY: the pointer is null, or it points to a leaked action.
    let previous = unsafe { PREVIOUS.load(Acquire).as_ref() };
    let is_ignored = previous.is_some_and(|action| action.sa_sigaction == libc::SIG_IGN);
    if !is_fault && is_ignored {
        return;
    }
    // SAFETY: all zeros are the default action; both calls are allowed in a handler.
    unsafe {
        let by_default: libc::sigaction = MaybeUninit::zeroed().assume_init();
        let next = match previous {
            Some(action) if !IS_PASSED_ON.swap(true, SeqCst) => action,
            _ => &by_default,
        };
        libc::sigaction(SIGBUS, next, ptr::null_mut());
        // A fault happens again when the handler returns; a signal that was sent must be sent
        // again.
        if !is_fault {
            libc::raise(SIGBUS);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::os::unix::fs::FileExt;

    use memmap2::MmapOptions;

    use super::*;

    const PAGES: usize = 8;

    fn mapped(bytes: usize) -> (File, GuardedMmap<MmapRaw>) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes as u64).unwrap();
        let map = MmapOptions::new().map_raw(&file).unwrap();
        (file, map.into())
    }

    fn byte_at(map: &GuardedMmap<MmapRaw>, at: usize) -> u8 {
        assert!(at < map.len());
        // SAFETY: within the map, as asserted.
        unsafe { map.as_ptr().add(at).read_volatile() }
    }

    #[test]
    fn a_lost_page_reads_as_zeros_and_marks_only_its_map() {
        let page = rustix::param::page_size();
        let (file, map) = mapped(PAGES * page);
        let (_other_file, other) = mapped(PAGES * page);
        assert_eq!(byte_at(&map, 3 * page), 0);
        map.check().unwrap();
        file.set_len(page as u64).unwrap();
        assert_eq!(byte_at(&map, 0), 0);
        map.check().unwrap();
        assert_eq!(byte_at(&map, 3 * page + 5), 0);
        assert!(map.check().is_err());
        // SAFETY: within the map.
        unsafe { map.as_mut_ptr().add(4 * page).write_volatile(7) };
        assert_eq!(byte_at(&map, 4 * page), 7, "a write goes on as well");
        assert!(!map.is_whole() && other.is_whole());
        drop(map);
        let (_file, next) = mapped(page);
        next.check().unwrap();
    }

    #[test]
    fn many_maps_are_guarded_and_lost_by_many_threads() {
        let page = rustix::param::page_size();
        let maps: Vec<_> = (0..3 * PIECE_SLOTS).map(|_| mapped(2 * page)).collect();
        std::thread::scope(|scope| {
            for maps in maps.chunks(PIECE_SLOTS / 2) {
                scope.spawn(move || {
                    for (file, map) in maps.iter().step_by(2) {
                        file.set_len(0).unwrap();
                        assert_eq!(byte_at(map, page), 0);
                    }
                });
            }
        });
        for (at, (_file, map)) in maps.iter().enumerate() {
            assert_eq!(map.is_whole(), at % 2 == 1);
        }
    }

    /// Makes accesses to pages that are not in memory raise SIGBUS, as with a disk that cannot read
    /// them. None if the kernel does not allow that.
    fn failing_reads(map: &GuardedMmap<MmapRaw>) -> Option<OwnedFd> {
        const USER_MODE_ONLY: c_int = 1;
        const API: u64 = 0xAA;
        const FEATURES: u64 = 1 << 5 | 1 << 7; // missing pages of shared memory; SIGBUS for them
        const MISSING: u64 = 1;
        const API_CALL: u64 = 0xC018_AA3F;
        const REGISTER_CALL: u64 = 0xC020_AA00;
        let flags = libc::O_CLOEXEC | USER_MODE_ONLY;
        // SAFETY: a system call that uses no memory of this process.
        let made = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        let made = c_int::try_from(made).ok().filter(|made| *made >= 0)?;
        // SAFETY: the descriptor was just created, and nothing else owns it.
        let failing = unsafe { OwnedFd::from_raw_fd(made) };
        let mut api = [API, FEATURES, 0];
        let mut range = [map.as_ptr() as u64, map.len() as u64, MISSING, 0];
        // SAFETY: the kernel's structures are three and four 64-bit numbers.
        let is_set = unsafe {
            libc::ioctl(made, API_CALL as _, api.as_mut_ptr()) == 0
                && libc::ioctl(made, REGISTER_CALL as _, range.as_mut_ptr()) == 0
        };
        is_set.then_some(failing)
    }

    #[test]
    fn a_page_that_cannot_be_read_is_lost_too() {
        let page = rustix::param::page_size();
        let memory = rustix::fs::memfd_create("lost-pages", rustix::fs::MemfdFlags::CLOEXEC);
        let file = File::from(memory.unwrap());
        file.set_len((PAGES * page) as u64).unwrap();
        file.write_all_at(&[7], 0).unwrap();
        let map: GuardedMmap<MmapRaw> = MmapOptions::new().map_raw(&file).unwrap().into();
        let Some(_failing) = failing_reads(&map) else {
            eprintln!("skipped: no userfaultfd; the tests that truncate a file cover SIGBUS");
            return;
        };
        assert_eq!(byte_at(&map, 0), 7);
        map.check().unwrap();
        assert_eq!(byte_at(&map, 3 * page), 0);
        assert!(map.check().is_err());
        assert_eq!(byte_at(&map, 0), 7, "the others are still there");
    }

    /// Runs in a child process: a fault outside of every guarded map.
    #[test]
    #[ignore = "ends the process"]
    fn child_that_faults_elsewhere() {
        let (_file, _guarded) = mapped(4096);
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let map = MmapOptions::new().map_raw(&file).unwrap();
        file.set_len(0).unwrap();
        // SAFETY: within the map; the test wants this access to fault.
        unsafe { map.as_ptr().read_volatile() };
    }

    #[test]
    fn other_faults_end_the_process_as_before() {
        use std::os::unix::process::ExitStatusExt;
        use std::process::Command;

        let name = "sigbus_guard::tests::child_that_faults_elsewhere";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", name])
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(SIGBUS), "{child:?}");
    }
}
