//! Cuts the stream of log bytes into whole records, so that a slave's log always ends between two.

use super::Fault;
use mq_format::message::{BLANK_BYTES, Head, stated_offset, stated_store_timestamp};

/// Longest record, and longest blank end of a file, that a slave takes: RocketMQ's messages have at
/// most 4 MiB unless configured. The first byte of a shorter record is 0.
const RECORD_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a record up to the end of its physical offset.
const STATED_OFFSET_END: usize = 36;
/// More memory than this is given back when no bytes wait.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// Bytes of the log that are not a whole record yet.
#[derive(Debug, Default)]
pub(super) struct Records {
    waiting: Vec<u8>,
    /// Log offset of the first waiting byte, the start of a record.
    offset: u64,
}

/// Whole records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole {
    pub bytes: usize,
    /// Store time of the last one that is not blank.
    pub store_timestamp_ms: Option<i64>,
}

impl Records {
    /// A record begins at `offset`.
    pub(super) fn at(offset: u64) -> Self {
        Self {
            waiting: Vec::new(),
            offset,
        }
    }

    /// The log begins at 0, and its first byte is there: the highest of the size of its first
    /// record, 0 for every record that is taken.
    pub(super) fn after_zero() -> Self {
        Self {
            waiting: vec![0],
            offset: 0,
        }
    }

    /// Offset after the waiting bytes.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.waiting.len() as u64
    }

    /// Takes the next bytes of the log, and passes on whole records of one file at a time.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        file_bytes: u64,
        mut whole: impl FnMut(u64, &[u8], Option<i64>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.waiting.extend_from_slice(bytes);
        let mut passed = 0;
        let done = loop {
            let at = self.offset + passed as u64;
            let records = match cut(&self.waiting[passed..], at, file_bytes) {
                Ok(records) if records.bytes > 0 => records,
                other => break other.map(drop),
            };
            let bytes = &self.waiting[passed..passed + records.bytes];
            if let Err(fault) = whole(at, bytes, records.store_timestamp_ms) {
                break Err(fault);
            }
            passed += records.bytes;
        };
        self.offset += passed as u64;
        self.waiting.drain(..passed);
        if self.waiting.is_empty() {
            self.waiting.shrink_to(SPARE_BYTES_MAX);
        }
        done
    }
}

/// The whole records of one file at the start of `bytes`, whose log offset is `offset`.
fn cut(bytes: &[u8], offset: u64, file_bytes: u64) -> Result<Whole, Fault> {
    let mut whole = Whole {
        bytes: 0,
        store_timestamp_ms: None,
    };
    let room = file_bytes - offset % file_bytes;
    while let Some(rest) = bytes
        .get(whole.bytes..)
        .filter(|rest| rest.len() >= BLANK_BYTES)
    {
        let left = room - whole.bytes as u64;
        if left == 0 {
            break;
        }
        let at = offset + whole.bytes as u64;
        let (size, is_blank) = match size_of(rest, at, left) {
            // The records before it come first; the next cut finds it again.
            Err(_) if whole.bytes > 0 => break,
            found => found?,
        };
        if rest.len() < size {
            break;
        }
        if !is_blank {
            whole.store_timestamp_ms = stated_store_timestamp(&rest[..size]);
        }
        whole.bytes += size;
    }
    Ok(whole)
}

/// The size of the record that begins with `bytes`, and whether it is the blank one, with `left`
/// bytes up to the end of its file.
fn size_of(bytes: &[u8], offset: u64, left: u64) -> Result<(usize, bool), Fault> {
    let fault = |why| Err(Fault::NoRecord { offset, why });
    let (size, is_blank) = match Head::parse(bytes) {
        Head::Record(size) => (size as u64, false),
        Head::Blank => {
            let size = bytes
                .first_chunk()
                .map_or(0, |size| u32::from_be_bytes(*size));
            if u64::from(size) != left {
                return fault("the file ends elsewhere; mappedFileSizeCommitLog differs");
            }
            (left, true)
        }
        Head::Neither => return fault("its size or its magic is wrong"),
    };
    if size > left {
        return fault("it is longer than its file; mappedFileSizeCommitLog may differ");
    }
    if size >= RECORD_BYTES_MAX {
        return fault("it is longer than 16 MiB");
    }
    let stated = bytes.get(..STATED_OFFSET_END).and_then(stated_offset);
    if !is_blank && stated.is_some_and(|stated| stated != offset.cast_signed()) {
        return fault("it says that it belongs elsewhere");
    }
    Ok((size as usize, is_blank))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mq_testing::golden::{Golden, LOG_FILE_BYTES};

    const FILE: u64 = LOG_FILE_BYTES as u64;

    #[test]
    fn a_java_log_in_any_pieces_is_cut_into_whole_records() {
        let log = Golden::open("store").commit_log();
        let end = mq_testing::golden::path("store");
        assert!(end.exists());
        for piece in [1, 7, 4_096, 32_768, log.len()] {
            let mut records = Records::default();
            let (mut next, mut file_ends) = (0, 0);
            let mut fault = None;
            for bytes in log.chunks(piece) {
                let pushed = records.push(bytes, FILE, |offset, bytes, _| {
                    assert_eq!(offset, next);
                    assert_eq!(bytes, &log[offset as usize..][..bytes.len()]);
                    next += bytes.len() as u64;
                    assert!(offset % FILE + bytes.len() as u64 <= FILE);
                    file_ends += usize::from(next.is_multiple_of(FILE));
                    Ok(())
                });
                if let Err(found) = pushed {
                    fault = Some(found);
                    break;
                }
            }
            // After its last record the golden log has zeros.
            let why = "its size or its magic is wrong";
            let offset = next;
            assert_eq!(fault, Some(Fault::NoRecord { offset, why }), "{piece}");
            assert!(file_ends > 0 && log[next as usize..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn records_of_another_place_or_file_size_are_refused() {
        let log = Golden::open("store").commit_log();
        let none = |_, _: &[u8], _| Ok(());
        let fault = |offset, file_bytes, bytes: &[u8]| match Records::at(offset)
            .push(bytes, file_bytes, none)
        {
            Err(Fault::NoRecord { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        assert!(fault(FILE, FILE, &log).contains("belongs elsewhere"));
        assert!(fault(0, 2 * FILE, &log).contains("mappedFileSizeCommitLog differs"));
        assert!(fault(0, 100, &log).contains("longer than its file"));
        assert!(fault(0, FILE, &[0xFF; 8]).contains("magic"));
    }
}
