//! Makes the first write to a range of a file fast: its pages or blocks exist beforehand.

use std::io;

use memmap2::Advice;

use super::PAGE_BYTES;
use super::fs::File;
use super::io_hooks::Operation;

/// Sizes in which a file is warmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmPace {
    /// Bytes of one call: the writer may have to wait for it.
    pub piece_bytes: u64,
    /// Bytes of all calls in a row: other threads on the same processor may have to wait for them.
    pub row_bytes: u64,
}

/// Zeros, aligned for direct writes.
#[repr(align(4096))]
pub(super) struct Zeros(pub(super) [u8; 1 << 20]);

pub(super) static ZEROS: Zeros = Zeros([0; 1 << 20]);

/// The kernel makes folios as large as a piece. For larger folios it has to compact memory; smaller
/// folios cost more (64 KiB: a third more of the broker's time per message).
pub(super) const MAP: WarmPace = WarmPace {
    piece_bytes: 256 << 10,
    row_bytes: 256 << 10,
};

/// Appends wait while a piece is written, so the disk gets few and large writes: pieces of 256 KiB
/// took a third more of the disk's time, and single pieces on demand cost a tenth of the flushes.
pub(super) const DIRECT: WarmPace = WarmPace {
    piece_bytes: ZEROS.0.len() as u64,
    row_bytes: 8 << 20,
};

/// Writes zeros to a range of a file, and calls `advise` to fault in its pages of a map.
///
/// A fault on a page that is not in memory makes the kernel read around it, as much as the disk's
/// read-ahead setting says and at once: 8 MiB in 20 ms on some machines, while other threads of
/// that processor wait. The advice [`Advice::Random`] prevents that, but then the kernel faults in
/// one page at a time. A write creates as many pages as it has bytes for.
pub fn warm_map(
    file: &File,
    advise: impl FnOnce(Advice, usize, usize) -> io::Result<()>,
    from: u64,
    to: u64,
) -> io::Result<()> {
    for at in (from..to).step_by(MAP.piece_bytes as usize) {
        write_zeros(file, at, to.min(at + MAP.piece_bytes))?;
    }
    let start = usize::try_from(from).map_err(io::Error::other)?;
    let count = usize::try_from(to - from).map_err(io::Error::other)?;
    let populate = || advise(Advice::PopulateWrite, start, count);
    match file.doing(&Operation::Allocate(from, to), populate) {
        // Linux knows this advice since 5.14. On older kernels each page costs a short fault later.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        populated => populated,
    }
}

/// Overwrites blocks with zeros, bypassing the page cache. Direct writes need whole pages; a
/// partial page at either end stays unchanged.
pub(super) fn direct(file: &File, from: u64, to: u64) -> io::Result<()> {
    let (from, to) = (from.next_multiple_of(PAGE_BYTES), to - to % PAGE_BYTES);
    write_zeros(file, from, to)
}

/// Writes zeros to a range, starting at its first byte.
pub(super) fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    while at < to {
        let count = (to - at).min(ZEROS.0.len() as u64);
        file.write_all_at(&ZEROS.0[..count as usize], at)?;
        at += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_disk::{WriteMode, appending};
    use crate::fs::create_own;

    #[test]
    fn warming_brings_only_the_piece_into_memory() {
        const LENGTH: u64 = 64 << 20;
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        std::fs::File::create(&path)
            .unwrap()
            .set_len(LENGTH)
            .unwrap();
        let disk = appending(&path, WriteMode::Map);
        disk.allocate(0, LENGTH).unwrap();
        let piece = disk.warm_pace().piece_bytes;
        for number in 0..8 {
            // The writer may write before the pages are warmed, and readers then read those bytes.
            let from = number * 4 * piece;
            disk.write_at(from, &[&[7; 1_000]]).unwrap();
            disk.bring(from, from + 1_000);
            let from = from + PAGE_BYTES;
            disk.warm(from, from + piece).unwrap();
            assert!(disk.resident(from, from + piece).is_some());
            for page in (from + piece..from + 2 * piece).step_by(PAGE_BYTES as usize) {
                let is_there = disk.resident(page, page + 1).is_some();
                assert!(
                    !is_there,
                    "{} behind what was asked for",
                    page - from - piece
                );
            }
        }
    }

    #[test]
    fn a_system_that_does_not_know_the_advice_is_only_slower() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        let file = create_own(&path).unwrap();
        let warmed = |code| {
            warm_map(
                &file,
                |_, _, _| Err(io::Error::from_raw_os_error(code)),
                10,
                90,
            )
        };
        warmed(libc::EINVAL).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 90);
        let error = warmed(libc::EFAULT).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }
}
