//! Bodies of the fuzz target for bytes that brokers send each other. They also run as property
//! tests with every `cargo test`, see `ha/tests/peer_proptests.rs`.

#![allow(dead_code, clippy::unwrap_used, reason = "a panic is the finding")]

use mq_ha::protocol::{
    Fault, LogRange, MasterSide, MasterTiming, SlaveLog, SlaveSide, SlaveStart, SlaveTiming, Step,
};

const FILE_BYTES: u64 = 1 << 12;

/// The first byte chooses the side, the second the size of the pieces in which the rest arrives.
pub fn peer(bytes: &[u8]) {
    let [side, step, stream @ ..] = bytes else {
        return;
    };
    let pieces = stream.chunks(usize::from(*step) + 1);
    match side % 2 {
        0 => master(pieces, u64::from(*side) * 1_000),
        _ => slave(pieces, u64::from(*side / 2) * 50),
    }
}

/// A master never sends bytes that it does not have, and never believes more than it sent.
fn master<'a>(pieces: impl Iterator<Item = &'a [u8]>, end: u64) {
    let log = LogRange {
        start: end / 2 - end / 2 % FILE_BYTES,
        end,
        file_bytes: FILE_BYTES,
    };
    let mut side = MasterSide::new(MasterTiming::default(), 0);
    for piece in pieces {
        if side.receive(piece, log, 0).is_err() {
            return;
        }
        if let Step::Data { offset, bytes } = side.step(log, 0).unwrap() {
            assert!(log.start <= offset && offset + bytes as u64 <= log.end && bytes > 0);
        }
        assert!(side.acked() <= side.sent());
        side.send(0, 0);
    }
}

/// A log that only knows its end.
struct End(u64);

impl SlaveLog for End {
    fn compare(&mut self, offset: u64, bytes: &[u8]) -> Result<Option<u64>, String> {
        assert!(offset + bytes.len() as u64 <= self.0);
        Ok(bytes
            .iter()
            .position(|byte| *byte != 0)
            .map(|at| offset + at as u64))
    }

    fn append(&mut self, offset: u64, bytes: &[u8], _: Option<i64>) -> Result<(), String> {
        assert!(offset == self.0 || self.0 == 0 && offset.is_multiple_of(FILE_BYTES));
        assert!(offset % FILE_BYTES + bytes.len() as u64 <= FILE_BYTES && !bytes.is_empty());
        self.0 = offset + bytes.len() as u64;
        Ok(())
    }

    fn skip_to(&mut self, offset: u64) -> Result<(), String> {
        Err(format!("nothing is missing before {offset}"))
    }
}

/// A slave appends only bytes that continue its log, and reports no offset beyond its end.
fn slave<'a>(pieces: impl Iterator<Item = &'a [u8]>, end: u64) {
    let start = SlaveStart {
        start: 0,
        end,
        file_bytes: FILE_BYTES,
        first_offset: None,
        master_start: None,
        last_stored_ms: None,
    };
    let (mut log, mut side) = (End(end), SlaveSide::new(SlaveTiming::default(), start, 0));
    for piece in pieces {
        let received = side.receive(piece, 0, &mut log);
        if let Some(report) = side.report(log.0, 0) {
            assert!(u64::from_be_bytes(report) <= log.0);
        }
        match received {
            Ok(()) => {}
            Err(Fault::OwnLog(why)) => panic!("{why}"),
            Err(_) => return,
        }
    }
}
