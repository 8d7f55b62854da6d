//! Reads from mapped files only where the pages are in memory, and advice about page tables.

use memmap2::{MmapRaw, UncheckedAdvice};

use super::PAGE_BYTES;

/// Number of pages that one `mincore` call covers; a longer range is treated as not in memory.
const RESIDENT_PAGES_MAX: usize = 1024;
/// Largest number of bytes that are prefetched for the next append.
const PREFETCH_BYTES_MAX: usize = 4 << 10;

/// Whether a range lies within a mapped file and is in memory now.
pub(super) fn is_resident(map: &MmapRaw, from: u64, to: u64) -> bool {
    let first = from - from % PAGE_BYTES;
    let pages = (to.saturating_sub(first)).div_ceil(PAGE_BYTES) as usize;
    if to > map.len() as u64 || pages > RESIDENT_PAGES_MAX {
        return false;
    }
    let mut states = [0u8; RESIDENT_PAGES_MAX];
    let length = (to - first) as usize;
    // SAFETY: the range starts at a page of the map and ends within the map, as checked above; the
    // system writes one byte for each page, and `states` has room for them.
    let asked = unsafe {
        let start = map.as_mut_ptr().add(first as usize);
        libc::mincore(start.cast(), length, states.as_mut_ptr())
    };
    asked == 0 && states[..pages].iter().all(|state| state & 1 != 0)
}

/// Appends bytes of a map to `out`; panics if the map is too short. The caller checks afterwards
/// whether the map is whole.
pub(super) fn copy_from_map(map: &MmapRaw, at: usize, bytes: usize, out: &mut Vec<u8>) {
    assert!(
        at + bytes <= map.len(),
        "{bytes} bytes at {at} leave the map"
    );
    out.reserve(bytes);
    // SAFETY: the source lies in the map, as asserted, and the writer does not write below the end
    // of the log. The space was reserved, and the length is set after the copy. Raw pointers,
    // because no reference to the bytes may exist.
    unsafe {
        let target = out.as_mut_ptr().add(out.len());
        std::ptr::copy_nonoverlapping(map.as_ptr().add(at), target, bytes);
        out.set_len(out.len() + bytes);
    }
}

/// Returns the address of a range of a map; panics if the map is too short. A reader of the bytes
/// checks afterwards whether the map is whole.
pub(super) fn of_map(map: &MmapRaw, from: u64, to: u64) -> *const [u8] {
    assert!(
        from <= to && to <= map.len() as u64,
        "{from} to {to} leave the map"
    );
    let start = map.as_ptr().wrapping_add(from as usize);
    std::ptr::slice_from_raw_parts(start, (to - from) as usize)
}

/// Removes the whole pages of a range from the page tables. The range was written through the map
/// and is complete. Without this, writeback makes each page read-only one by one, with an interrupt
/// to every processor: three quarters of the time of a flush. The pages stay in memory, and the
/// next access through the map finds them there.
pub(super) fn unmap(map: &MmapRaw, from: u64, to: u64) {
    let start = (from - from % PAGE_BYTES) as usize;
    let end = (to - to % PAGE_BYTES) as usize;
    if start < end {
        // SAFETY: the map is shared and backed by a file, so bytes written through it belong to the
        // file, with or without an entry in the page table.
        let unmapped =
            unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, end - start) };
        // If the system refuses, as for locked memory, flushes are only slower.
        let _ = unmapped;
    }
}

/// Prefetches the cache line at `at` of `bytes`; an address outside does no harm.
#[inline]
pub fn prefetch(bytes: *const u8, at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch reads and writes nothing and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(bytes.wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, at);
}

/// Prefetches the bytes that the next append will overwrite, while that append is encoded. The put
/// lock is released after a copy and waits for its stores: 10 to 20 % of an append.
pub(super) fn prefetch_append(map: &MmapRaw, from: usize, count: usize) {
    for at in (from..from + count.min(PREFETCH_BYTES_MAX)).step_by(64) {
        prefetch(map.as_ptr(), at);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use memmap2::MmapOptions;
    use rustix::fs::{Advice, fadvise};

    use super::*;

    #[test]
    fn evicted_pages_are_not_resident() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("file");
        let bytes: Vec<u8> = (0..20_000u32).map(|at| at as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = File::open(&path).unwrap();
        let map = MmapOptions::new().map_raw_read_only(&file).unwrap();
        assert!(is_resident(&map, 5_000, 20_000));
        assert!(!is_resident(&map, 5_000, 20_001), "beyond the end");
        let mut out = b"before".to_vec();
        copy_from_map(&map, 5_000, 3, &mut out);
        assert_eq!(out, [b"before", &bytes[5_000..5_003]].concat());
        drop(map); // the kernel does not evict mapped pages
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let map = MmapOptions::new().map_raw_read_only(&file).unwrap();
        assert!(!is_resident(&map, 100, 200));
    }

    #[test]
    fn a_range_that_is_too_long_is_not_resident() {
        let file = tempfile::tempfile().unwrap();
        let length = (RESIDENT_PAGES_MAX as u64 + 2) * PAGE_BYTES;
        file.set_len(length).unwrap();
        let map = MmapOptions::new().map_raw_read_only(&file).unwrap();
        assert!(!is_resident(&map, 0, length));
    }
}
