//! Making the first write to a range of a file fast: its pages are there, or its blocks.

use std::io;

use memmap2::Advice;

use super::PAGE_BYTES;
use super::fs::File;
use super::tape::Operation;

/// How much of a file is warmed at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmPace {
    /// With one call: the writer may have to wait for it.
    pub piece_bytes: u64,
    /// With calls in a row: whoever would run on the same processor may have to wait for all.
    pub row_bytes: u64,
}

/// Zeros where direct writes can take them from.
#[repr(align(4096))]
pub(super) struct Zeros(pub(super) [u8; 1 << 20]);

pub(super) static ZEROS: Zeros = Zeros([0; 1 << 20]);

/// The kernel makes folios as large as a piece: for larger ones it has to compact memory, and
/// smaller ones are dearer (64 KiB: a third more of the broker's time for a message).
pub(super) const MAP: WarmPace = WarmPace {
    piece_bytes: 256 << 10,
    row_bytes: 256 << 10,
};

/// Appends wait while a piece is written. The disk is asked seldom, and for much: 256 KiB at a
/// time took a third more of its time, and each piece when it is needed a tenth of the flushes.
pub(super) const DIRECT: WarmPace = WarmPace {
    piece_bytes: ZEROS.0.len() as u64,
    row_bytes: 8 << 20,
};

/// Writes zeros to a range of a file, and has `advise` fault its pages of a map in.
///
/// A fault of pages that are not there would have the kernel read around them, as much as the
/// disk's read-ahead says and all at once: 8 MiB in 20 ms on some machines, and whoever is to run
/// on that processor waits. A map advised [`Advice::Random`] is kept from that; then it would take
/// a page at a time, where a write takes as many as it has bytes for.
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
        // Linux knows this advice from 5.14 on; before, each page is a short fault later.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        populated => populated,
    }
}

/// Overwrites blocks with zeros past the page cache. Direct writes need whole pages; what sticks
/// out at either end stays as it is.
pub(super) fn direct(file: &File, from: u64, to: u64) -> io::Result<()> {
    let (from, to) = (from.next_multiple_of(PAGE_BYTES), to - to % PAGE_BYTES);
    write_zeros(file, from, to)
}

/// Writes zeros, of a range from the first byte on.
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
    fn no_more_than_a_piece_is_brought_into_memory_at_a_time() {
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
            // The writer may come before the pages, and readers look at what it wrote.
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
