//! Maps whose pages the disk may take away without ending the process.
//!
//! A page of a mapped file is gone once the file is truncated or the disk fails to read it. The
//! next access raises SIGBUS, which by default ends the process. The handler here puts a page of
//! zeros in the lost page's place, so that the access goes on, and marks the map. Whoever used a
//! map asks [`Guarded::check`] afterwards, and takes what it read or wrote for an I/O error.
//!
//! Faults outside of guarded maps go to the handler that was there before.

use std::io;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    compiler_fence,
};

use libc::{SIGBUS, c_int, c_void, siginfo_t};
use memmap2::{MmapMut, MmapRaw};
use parking_lot::Mutex;

/// Slots of a piece of the table; a store has a few maps, one with many log files has more.
const PIECE_SLOTS: usize = 64;

/// One guarded map. The handler reads slots without a lock; `start` is 0 while a slot is free.
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

/// A part of the table, which only grows.
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
        // SAFETY: null, or a piece that was leaked.
        unsafe { self.next.load(Acquire).as_ref() }
    }
}

static TABLE: Piece = Piece::new();
/// Held while a map is added: then the table and the signal's handler may change.
static ADDING: Mutex<()> = Mutex::new(());
/// What SIGBUS did before; never given back.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
/// Whether a signal went to the previous handler, which is in place since.
static IS_PASSED_ON: AtomicBool = AtomicBool::new(false);
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// A map, and what tells whether a page of it was lost.
#[derive(Debug)]
pub struct Guarded<M> {
    // Dropped before the map: its addresses may belong to another one after that.
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

impl<M> Guarded<M> {
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

    /// Whether every page that was read or written so far was the file's.
    #[inline]
    pub fn is_whole(&self) -> bool {
        // What was read or written before must not be moved behind the look at the mark.
        compiler_fence(SeqCst);
        !self.guard.0.is_damaged.load(Acquire)
    }

    /// An error once a page was lost. Asked after the map was used.
    #[inline]
    pub fn check(&self) -> io::Result<()> {
        match self.is_whole() {
            true => Ok(()),
            false => Err(lost()),
        }
    }
}

impl From<MmapRaw> for Guarded<MmapRaw> {
    fn from(map: MmapRaw) -> Self {
        let (start, bytes) = (map.as_ptr(), map.len());
        Self::new(map, start, bytes)
    }
}

impl From<MmapMut> for Guarded<MmapMut> {
    fn from(map: MmapMut) -> Self {
        let (start, bytes) = (map.as_ptr(), map.len());
        Self::new(map, start, bytes)
    }
}

impl<M> Deref for Guarded<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.map
    }
}

impl<M> DerefMut for Guarded<M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.map
    }
}

#[cold]
fn lost() -> io::Error {
    io::Error::other("a mapped page is gone: the file was truncated or its disk failed")
}

/// A slot that no map has; the table grows by a piece where all are taken.
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

/// Puts our handler first, unless it is there already: another, such as Python's faulthandler,
/// may have been put in front of it.
fn install() {
    let ours = on_sigbus as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
    let mut found = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks for the action of a signal that exists, into a place of its type.
    if unsafe { libc::sigaction(SIGBUS, ptr::null(), found.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: all zeros are a valid action, and the system filled it in.
    let found = unsafe { found.assume_init() };
    if found.sa_sigaction == ours {
        return;
    }
    PREVIOUS.store(Box::leak(Box::new(found)), Release);
    IS_PASSED_ON.store(false, Relaxed);
    PAGE_BYTES.store(rustix::param::page_size(), Relaxed);
    // SAFETY: as above; the handler only does what a handler may.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = ours;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(SIGBUS, &raw const action, ptr::null_mut());
    }
}

/// Calls nothing but the system: it may interrupt any code of ours.
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

/// Marks the map that an address is in and puts zeros there; false if it is in none.
fn replace(address: usize) -> bool {
    let Some(slot) = slot_of(address) else {
        return false;
    };
    // First: whoever sees the zeros sees the mark.
    slot.is_damaged.store(true, SeqCst);
    let bytes = PAGE_BYTES.load(Relaxed);
    let page = (address - address % bytes) as *mut c_void;
    // SAFETY: the page belongs to a map of ours, which its user keeps alive, and which owns all
    // its pages until it is unmapped as a whole.
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
            // Unchanged: the end belongs to this start.
            if is_in && slot.start.load(SeqCst) == start {
                return Some(slot);
            }
        }
        piece = slots.next();
    }
    None
}

/// Leaves the signal to the handler before ours, or ends the process where that had its turn: it
/// may have put ours back to be rid of its own.
fn pass_on(is_fault: bool) {
    // SAFETY: null, or an action that was leaked.
    let previous = unsafe { PREVIOUS.load(Acquire).as_ref() };
    let is_ignored = previous.is_some_and(|action| action.sa_sigaction == libc::SIG_IGN);
    if !is_fault && is_ignored {
        return;
    }
    // SAFETY: all zeros are the default action; both calls may be made by a handler.
    unsafe {
        let by_default: libc::sigaction = MaybeUninit::zeroed().assume_init();
        let next = match previous {
            Some(action) if !IS_PASSED_ON.swap(true, SeqCst) => action,
            _ => &by_default,
        };
        libc::sigaction(SIGBUS, next, ptr::null_mut());
        // A fault happens again when the handler returns; what was sent has to be sent again.
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

    fn mapped(bytes: usize) -> (File, Guarded<MmapRaw>) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes as u64).unwrap();
        let map = MmapOptions::new().map_raw(&file).unwrap();
        (file, map.into())
    }

    fn byte_at(map: &Guarded<MmapRaw>, at: usize) -> u8 {
        assert!(at < map.len());
        // SAFETY: within the map, as asserted.
        unsafe { map.as_ptr().add(at).read_volatile() }
    }

    #[test]
    fn a_lost_page_reads_as_zeros_and_marks_its_map_alone() {
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

    /// Has an access to a page that is not in memory raise SIGBUS, as where a disk cannot read the
    /// page. None where the kernel does not do so.
    fn failing_reads(map: &Guarded<MmapRaw>) -> Option<OwnedFd> {
        const USER_MODE_ONLY: c_int = 1;
        const API: u64 = 0xAA;
        const FEATURES: u64 = 1 << 5 | 1 << 7; // missing pages of shared memory; SIGBUS for them
        const MISSING: u64 = 1;
        const API_CALL: u64 = 0xC018_AA3F;
        const REGISTER_CALL: u64 = 0xC020_AA00;
        let flags = libc::O_CLOEXEC | USER_MODE_ONLY;
        // SAFETY: a call without memory of ours.
        let made = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        let made = c_int::try_from(made).ok().filter(|made| *made >= 0)?;
        // SAFETY: it was just made, and nobody else knows it.
        let failing = unsafe { OwnedFd::from_raw_fd(made) };
        let mut api = [API, FEATURES, 0];
        let mut range = [map.as_ptr() as u64, map.len() as u64, MISSING, 0];
        // SAFETY: the kernel's structures are three and four numbers of 64 bits.
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
        let map: Guarded<MmapRaw> = MmapOptions::new().map_raw(&file).unwrap().into();
        let Some(_failing) = failing_reads(&map) else {
            eprintln!("no userfaultfd here: the tests that truncate a file stand for this one");
            return;
        };
        assert_eq!(byte_at(&map, 0), 7);
        map.check().unwrap();
        assert_eq!(byte_at(&map, 3 * page), 0);
        assert!(map.check().is_err());
        assert_eq!(byte_at(&map, 0), 7, "the others are still there");
    }

    /// The body of a child process: faults outside of every guarded map.
    #[test]
    #[ignore = "ends the process"]
    fn child_that_faults_elsewhere() {
        let (_file, _guarded) = mapped(4096);
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let map = MmapOptions::new().map_raw(&file).unwrap();
        file.set_len(0).unwrap();
        // SAFETY: within the map; that it faults is what is tested.
        unsafe { map.as_ptr().read_volatile() };
    }

    #[test]
    fn other_faults_end_the_process_as_before() {
        use std::os::unix::process::ExitStatusExt;
        use std::process::Command;

        let name = "lost_pages::tests::child_that_faults_elsewhere";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", name])
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(SIGBUS), "{child:?}");
    }
}
