//! The slave's side of a connection (RocketMQ's `HAClient`).

use super::records::Records;
use super::{BODY_BYTES_MAX, Fault, HEADER_BYTES, REPORT_BYTES};
use mq_format::message::{Head, stated_store_timestamp};

/// Bytes below its end that a slave asks for again, and compares with its own.
const OVERLAP_BYTES: u64 = 1 << 20;

/// A master's later messages may seem to be older by this time: the clocks of two brokers that were
/// its master in turn may differ.
const OLDER_MS_MAX: i64 = 600_000;

/// The first bytes of a TLS alert (RFC 8446, 5.1), with which a master under TLS answers a report.
const TLS_ALERT: [u8; 2] = [0x15, 3];

/// The log of a slave.
pub trait SlaveLog {
    /// Compares the master's bytes with this log's bytes at the offset. Returns the offset of the
    /// first difference.
    fn compare(&mut self, offset: u64, bytes: &[u8]) -> Result<Option<u64>, String>;
    /// Appends whole records of one file at the end of the log; the last one was stored at
    /// `store_timestamp_ms`.
    fn append(
        &mut self,
        offset: u64,
        bytes: &[u8],
        store_timestamp_ms: Option<i64>,
    ) -> Result<(), String>;
    /// Continues at `offset`, the start of a file: blank records fill the gap before it.
    fn skip_to(&mut self, offset: u64) -> Result<(), String>;
}

/// Times of a slave, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlaveTiming {
    /// `haSendHeartbeatInterval`: longest time between two reports.
    pub heartbeat_ms: i64,
    /// `haHousekeepingInterval`: a master that says nothing for longer is gone.
    pub housekeeping_ms: i64,
}

impl Default for SlaveTiming {
    fn default() -> Self {
        Self {
            heartbeat_ms: 5_000,
            housekeeping_ms: 20_000,
        }
    }
}

/// The slave's log when it connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlaveStart {
    /// Offset of the first byte.
    pub start: u64,
    /// End of the log, between two records.
    pub end: u64,
    /// Length of its files, bytes.
    pub file_bytes: u64,
    /// First offset of a log that is empty yet, the start of a file of the master; None for the
    /// start of the master's last file.
    pub first_offset: Option<u64>,
    /// Start of the master's log, if it is known. A log that ends before it continues there:
    /// the master has deleted the bytes between.
    pub master_start: Option<u64>,
    /// Store time of the newest record, wall milliseconds; None for a log without one.
    pub last_stored_ms: Option<i64>,
}

impl SlaveStart {
    /// The first report, which is where the master starts to send.
    ///
    /// Offset 0 cannot be asked for, because to a master 0 means its last file. The byte at 0 is
    /// known: records are shorter than 16 MiB or the slave refuses them, so their size begins with
    /// 0. A log is compared from at most 1 MiB below its end on, but not below the file of its end,
    /// which may be the master's first.
    fn asks(&self) -> u64 {
        match (self.end, self.first_offset, self.master_start) {
            (0, None, _) => 0,
            (0, Some(first), _) => first.max(1),
            (end, _, Some(start)) if end < start => start,
            (end, _, _) => {
                let of_file = end - end % self.file_bytes;
                end.saturating_sub(OVERLAP_BYTES)
                    .max(of_file)
                    .max(self.start)
                    .max(1)
            }
        }
    }
}

/// What has become of the overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// The master has not sent all of it.
    Compared {
        /// Offset up to which both logs are equal.
        to: u64,
    },
    /// The logs agree up to the end that the slave had.
    Equal,
}

/// The state of a connection with the master.
#[derive(Debug)]
pub struct SlaveSide {
    timing: SlaveTiming,
    file_bytes: u64,
    header: [u8; HEADER_BYTES],
    header_filled: usize,
    body_left: usize,
    /// Log offset of the next byte; None before the first frame for an empty log.
    position: Option<u64>,
    asks: u64,
    /// End of the log at the connect: bytes below it are compared.
    known_end: u64,
    records: Records,
    reported: Option<u64>,
    last_report_ms: i64,
    last_read_ms: i64,
    /// Start of a message that has not come completely.
    waiting_since_ms: Option<i64>,
    master_end: u64,
    is_told: bool,
    /// The log ends before the first byte that comes: see [`SlaveStart::master_start`].
    is_behind: bool,
    /// See [`SlaveStart::last_stored_ms`].
    last_stored_ms: Option<i64>,
}

impl SlaveSide {
    /// A connection that begins at `now_ms`, monotonic milliseconds.
    pub fn new(timing: SlaveTiming, start: SlaveStart, now_ms: i64) -> Self {
        let asks = start.asks();
        let mut records = Records::at(start.end);
        if start.end == 0 && asks == 1 {
            records = Records::after_zero();
        } else if start.end == 0 || start.end < asks {
            records = Records::at(asks);
        }
        Self {
            timing,
            file_bytes: start.file_bytes,
            header: [0; HEADER_BYTES],
            header_filled: 0,
            body_left: 0,
            position: (asks > 0).then_some(asks),
            asks,
            known_end: start.end,
            records,
            reported: None,
            last_report_ms: now_ms,
            last_read_ms: now_ms,
            waiting_since_ms: None,
            master_end: 0,
            is_told: false,
            is_behind: (1..asks).contains(&start.end),
            last_stored_ms: start.last_stored_ms,
        }
    }

    /// Largest log offset that the master is known to have reached.
    pub fn master_end(&self) -> u64 {
        self.master_end
    }

    /// Whether a frame has come.
    pub fn is_told(&self) -> bool {
        self.is_told
    }

    /// Whether the stream began with an alert of TLS instead of a frame.
    pub fn is_tls_alert(&self) -> bool {
        let begin = &self.header[..self.header_filled.min(TLS_ALERT.len())];
        !self.is_told && begin == TLS_ALERT
    }

    /// The last report; None before the first.
    pub fn reported(&self) -> Option<u64> {
        self.reported
    }

    /// How the overlap stands.
    pub fn overlap(&self) -> Overlap {
        match self.position {
            Some(to) if to < self.known_end => Overlap::Compared { to },
            _ => Overlap::Equal,
        }
    }

    /// The report to send now, if one is due: the log is written up to `end`. The first one is due
    /// at once, later ones when there is more to acknowledge or after the heartbeat interval.
    pub fn report(&mut self, end: u64, now_ms: i64) -> Option<[u8; REPORT_BYTES]> {
        let offset = match (self.reported, self.overlap()) {
            (None, _) => self.asks,
            (_, Overlap::Compared { to }) => to,
            (Some(before), Overlap::Equal) => end.max(before),
        };
        let is_late = now_ms.saturating_sub(self.last_report_ms) >= self.timing.heartbeat_ms;
        if self.reported == Some(offset) && !is_late {
            return None;
        }
        (self.reported, self.last_report_ms) = (Some(offset), now_ms);
        Some(offset.to_be_bytes())
    }

    /// Milliseconds until the next report or check is due.
    pub fn pause_ms(&self, now_ms: i64) -> i64 {
        let report_ms = self.last_report_ms + self.timing.heartbeat_ms;
        let silent_ms = self.last_read_ms + self.timing.housekeeping_ms + 1;
        report_ms.min(silent_ms).saturating_sub(now_ms).max(1)
    }

    /// Whether the master has been silent, or has left a frame unfinished, for too long.
    pub fn check(&self, now_ms: i64) -> Result<(), Fault> {
        let since_ms = self.waiting_since_ms.unwrap_or(self.last_read_ms);
        let silent_ms = now_ms.saturating_sub(since_ms.min(self.last_read_ms));
        match silent_ms > self.timing.housekeeping_ms {
            true => Err(Fault::Silent(silent_ms)),
            false => Ok(()),
        }
    }

    /// Takes bytes from the master.
    pub fn receive(
        &mut self,
        mut bytes: &[u8],
        now_ms: i64,
        log: &mut impl SlaveLog,
    ) -> Result<(), Fault> {
        self.last_read_ms = now_ms;
        while !bytes.is_empty() {
            if self.body_left > 0 {
                let count = bytes.len().min(self.body_left);
                let (body, rest) = bytes.split_at(count);
                self.take(body, log)?;
                self.body_left -= count;
                bytes = rest;
            } else {
                let count = bytes.len().min(HEADER_BYTES - self.header_filled);
                let (taken, rest) = bytes.split_at(count);
                self.header[self.header_filled..][..count].copy_from_slice(taken);
                self.header_filled += count;
                bytes = rest;
                if self.header_filled == HEADER_BYTES {
                    self.header_filled = 0;
                    self.begin_frame()?;
                }
            }
        }
        let is_within = self.body_left > 0 || self.header_filled > 0;
        self.waiting_since_ms = match is_within {
            true => self.waiting_since_ms.or(Some(now_ms)),
            false => None,
        };
        Ok(())
    }

    fn begin_frame(&mut self) -> Result<(), Fault> {
        let (offset, length) = self.header.split_at(8);
        let offset = offset
            .first_chunk()
            .map_or(-1, |offset| i64::from_be_bytes(*offset));
        let length = length
            .first_chunk()
            .map_or(-1, |length| i32::from_be_bytes(*length));
        let body = usize::try_from(length)
            .ok()
            .filter(|body| *body <= BODY_BYTES_MAX);
        self.body_left = body.ok_or(Fault::Length(length))?;
        self.waiting_since_ms = None;
        let position = match (self.position, u64::try_from(offset)) {
            (Some(position), Ok(at)) if at == position => position,
            (Some(expected), _) => {
                return Err(Fault::Position {
                    got: offset,
                    expected,
                });
            }
            (None, Ok(first)) if first.is_multiple_of(self.file_bytes) => {
                self.records = Records::at(first);
                first
            }
            (None, _) => {
                return Err(Fault::NoFileStart {
                    got: offset,
                    file_bytes: self.file_bytes,
                });
            }
        };
        // A heartbeat to an empty log may come before the master's last file has its next byte.
        if self.body_left > 0 || position > 0 {
            self.position = Some(position);
        }
        self.is_told = true;
        self.master_end = self.master_end.max(position + self.body_left as u64);
        Ok(())
    }

    /// Takes bytes of a frame's body.
    fn take(&mut self, body: &[u8], log: &mut impl SlaveLog) -> Result<(), Fault> {
        let position = self.position.unwrap_or(0);
        let known = self.known_end.saturating_sub(position);
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(body.len());
        let (known, new) = body.split_at(known);
        self.position = Some(position + body.len() as u64);
        if !known.is_empty() {
            let differs = log.compare(position, known).map_err(Fault::OwnLog)?;
            if let Some(offset) = differs {
                return Err(Fault::Diverged(offset));
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        debug_assert_eq!(
            self.records.end() + body.len() as u64,
            self.position.unwrap_or(0) + known.len() as u64
        );
        let Self {
            records,
            file_bytes,
            is_behind,
            known_end,
            last_stored_ms,
            ..
        } = self;
        records.push(new, *file_bytes, |offset, bytes, timestamp_ms| {
            if std::mem::take(is_behind) {
                refuse_older(offset, bytes, *known_end, *last_stored_ms)?;
                log.skip_to(offset).map_err(Fault::OwnLog)?;
            }
            let appended = log.append(offset, bytes, timestamp_ms);
            appended.map_err(Fault::OwnLog)
        })
    }
}

/// Refuses the log that begins with `bytes` at `start`, after the end of this one, if it was stored
/// before the last record of this log: offsets and times of one log grow together.
fn refuse_older(
    start: u64,
    bytes: &[u8],
    end: u64,
    last_stored_ms: Option<i64>,
) -> Result<(), Fault> {
    let first_stored_ms = match Head::parse(bytes) {
        Head::Record(_) => stated_store_timestamp(bytes),
        _ => None,
    };
    let older_ms = last_stored_ms
        .zip(first_stored_ms)
        .map_or(0, |(last_ms, first_ms)| last_ms.saturating_sub(first_ms));
    match older_ms > OLDER_MS_MAX {
        true => Err(Fault::Foreign {
            start,
            end,
            older_ms,
        }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::header;
    use crate::protocol::simulation::{MemoryLog, record};

    const FILE: u64 = 1_000;

    fn start(end: u64) -> SlaveStart {
        SlaveStart {
            start: 0,
            end,
            file_bytes: FILE,
            first_offset: None,
            master_start: None,
            last_stored_ms: None,
        }
    }

    fn side(start: SlaveStart) -> SlaveSide {
        SlaveSide::new(SlaveTiming::default(), start, 0)
    }

    fn frame(offset: u64, body: &[u8]) -> Vec<u8> {
        [&header(offset, body.len())[..], body].concat()
    }

    #[test]
    fn the_first_report_asks_for_an_overlap_within_the_last_file() {
        let asks = |end, first_offset| {
            let file_bytes = 4 << 20;
            let start = SlaveStart {
                first_offset,
                file_bytes,
                ..start(end)
            };
            u64::from_be_bytes(side(start).report(end, 0).unwrap())
        };
        assert_eq!(
            [asks(0, None), asks(0, Some(0)), asks(0, Some(FILE))],
            [0, 1, FILE]
        );
        assert_eq!(asks(100, None), 1);
        assert_eq!(asks(3 << 20, None), 2 << 20);
        assert_eq!(asks(4 << 20, None), 4 << 20);
        assert_eq!(asks((4 << 20) + 100, Some(7)), 4 << 20);
    }

    #[test]
    fn whole_records_are_appended_and_acknowledged() {
        let mut log = MemoryLog::new(FILE, 0);
        let mut side = side(start(0));
        assert_eq!(side.report(0, 0), Some([0; 8]));
        let (one, two) = (record(2_000, 150, 7), record(2_150, 120, 8));
        let stream = [frame(2_000, &[]), frame(2_000, &one[..100])].concat();
        side.receive(&stream, 10, &mut log).unwrap();
        assert_eq!((log.end(), side.report(0, 10)), (0, None));
        let stream = frame(2_100, &[&one[100..], &two].concat());
        for byte in &stream {
            side.receive(&[*byte], 20, &mut log).unwrap();
        }
        assert_eq!((log.end(), side.master_end()), (2_270, 2_270));
        assert_eq!(side.report(log.end(), 20), Some(2_270_u64.to_be_bytes()));
        assert_eq!(side.report(log.end(), 5_019), None);
        assert_eq!(side.report(log.end(), 5_020), Some(2_270_u64.to_be_bytes()));
    }

    #[test]
    fn byte_0_of_a_full_copy_is_known() {
        let mut log = MemoryLog::new(FILE, 0);
        let first = SlaveStart {
            first_offset: Some(0),
            ..start(0)
        };
        let mut side = side(first);
        assert_eq!(side.report(0, 0), Some(1_u64.to_be_bytes()));
        let one = record(0, 150, 7);
        side.receive(&frame(1, &one[1..]), 0, &mut log).unwrap();
        assert_eq!(log.bytes(), one);
    }

    #[test]
    fn a_log_that_ends_before_the_masters_start_goes_on_there() {
        let mut log = MemoryLog::new(FILE, 0);
        log.append(0, &record(0, 150, 7), Some(7)).unwrap();
        let behind = SlaveStart {
            master_start: Some(3_000),
            ..start(150)
        };
        let mut side = side(behind);
        assert_eq!(side.report(150, 0), Some(3_000_u64.to_be_bytes()));
        let one = record(3_000, 120, 8);
        let stream = [frame(3_000, &[]), frame(3_000, &one[..50])].concat();
        side.receive(&stream, 0, &mut log).unwrap();
        assert_eq!((log.end(), side.report(150, 0)), (150, None));
        side.receive(&frame(3_050, &one[50..]), 0, &mut log)
            .unwrap();
        assert_eq!((log.end(), side.overlap()), (3_120, Overlap::Equal));
        assert_eq!(side.report(3_120, 0), Some(3_120_u64.to_be_bytes()));
        let level = SlaveStart {
            master_start: Some(1_000),
            ..start(1_000)
        };
        let mut side = SlaveSide::new(SlaveTiming::default(), level, 0);
        assert_eq!(side.report(1_000, 0), Some(1_000_u64.to_be_bytes()));
    }

    #[test]
    fn a_later_log_of_older_messages_is_another_masters() {
        let stored_ms = 10 * OLDER_MS_MAX;
        let taken = |first_ms, last_stored_ms| {
            let mut log = MemoryLog::new(FILE, 0);
            log.append(0, &record(0, 150, stored_ms), Some(stored_ms))
                .unwrap();
            let mut side = side(SlaveStart {
                master_start: Some(3_000),
                last_stored_ms,
                ..start(150)
            });
            side.report(150, 0);
            let frame = frame(3_000, &record(3_000, 120, first_ms));
            (side.receive(&frame, 0, &mut log), log.end())
        };
        let (start, end) = (3_000, 150);
        let older_ms = OLDER_MS_MAX + 1;
        let foreign = Fault::Foreign {
            start,
            end,
            older_ms,
        };
        let known = Some(stored_ms);
        assert_eq!(taken(stored_ms - older_ms, known), (Err(foreign), 150));
        assert_eq!(taken(stored_ms - OLDER_MS_MAX, known), (Ok(()), 3_120));
        assert_eq!(taken(stored_ms + 1, known), (Ok(()), 3_120));
        assert_eq!(taken(1, None), (Ok(()), 3_120));
    }

    #[test]
    fn a_log_that_differs_is_found_before_anything_is_appended() {
        let mut log = MemoryLog::new(FILE, 0);
        let (one, two) = (record(0, 150, 7), record(150, 120, 8));
        log.append(0, &one, Some(7)).unwrap();
        let mut equal = side(start(150));
        equal.report(150, 0);
        let stream = frame(1, &[&one[1..], &two].concat());
        equal.receive(&stream[..80], 0, &mut log).unwrap();
        assert_eq!(equal.overlap(), Overlap::Compared { to: 69 });
        assert_eq!(equal.report(150, 0), Some(69_u64.to_be_bytes()));
        equal.receive(&stream[80..], 0, &mut log).unwrap();
        assert_eq!((equal.overlap(), log.end()), (Overlap::Equal, 270));

        let mut other = side(start(270));
        other.report(270, 0);
        let mut changed = [&one[1..], &two].concat();
        changed[200] ^= 1;
        let fault = other.receive(&frame(1, &changed), 0, &mut log);
        assert_eq!((fault, log.end()), (Err(Fault::Diverged(201)), 270));
    }

    #[test]
    fn frames_that_cannot_be_are_refused() {
        let fault = |bytes: &[u8]| {
            let mut log = MemoryLog::new(FILE, 0);
            side(start(0)).receive(bytes, 0, &mut log).unwrap_err()
        };
        let long = [&[0; 8][..], &(BODY_BYTES_MAX as i32 + 1).to_be_bytes()].concat();
        assert_eq!(fault(&long), Fault::Length(BODY_BYTES_MAX as i32 + 1));
        assert_eq!(
            fault(&[&[0; 8][..], &[0xFF; 4]].concat()),
            Fault::Length(-1)
        );
        let no_start = |got| Fault::NoFileStart {
            got,
            file_bytes: FILE,
        };
        assert_eq!(fault(&header(7, 0)), no_start(7));
        assert_eq!(fault(&[&[0xFF; 8][..], &[0; 4]].concat()), no_start(-1));
        let gap = [frame(0, &record(0, 150, 7)), frame(151, &[1])].concat();
        let (got, expected) = (151, 150);
        assert_eq!(fault(&gap), Fault::Position { got, expected });
    }

    #[test]
    fn a_silent_master_and_a_dripping_one_are_given_up() {
        let mut log = MemoryLog::new(FILE, 0);
        let mut side = side(start(0));
        assert_eq!(side.check(20_000), Ok(()));
        assert_eq!(side.check(20_001), Err(Fault::Silent(20_001)));
        let stream = frame(0, &[0; 100]);
        for (at, byte) in (0..3).zip(&stream) {
            side.receive(&[*byte], at * 10_000, &mut log).unwrap();
        }
        assert_eq!(side.check(20_001), Err(Fault::Silent(20_001)));
    }
}
