//! The master's side of a connection (RocketMQ's `HAConnection`).

use super::{BODY_BYTES_MAX, Fault, HEADER_BYTES, REPORT_BYTES, header};
use mq_net::tls::HANDSHAKE_BYTE;

/// The log of the master at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRange {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last readable byte.
    pub end: u64,
    /// Length of its files, bytes.
    pub file_bytes: u64,
}

/// Times and sizes of a master, in milliseconds and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MasterTiming {
    /// `haSendHeartbeatInterval`: longest time between two frames.
    pub heartbeat_ms: i64,
    /// `haHousekeepingInterval`: a slave that says nothing for longer is gone.
    pub housekeeping_ms: i64,
    /// `haTransferBatchSize`: longest body of a frame.
    pub batch_bytes: usize,
}

impl Default for MasterTiming {
    fn default() -> Self {
        Self {
            heartbeat_ms: 5_000,
            housekeeping_ms: 20_000,
            batch_bytes: 32_768,
        }
    }
}

/// The next action of the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Read at most `bytes` bytes of one file at the offset, and send them.
    Data {
        /// Log offset.
        offset: u64,
        /// Most bytes.
        bytes: usize,
    },
    /// Send this frame.
    Heartbeat([u8; HEADER_BYTES]),
    /// Do nothing until the log grows, a report comes, or these milliseconds have passed.
    Wait(i64),
}

/// The state of a connection with one slave.
#[derive(Debug)]
pub struct MasterSide {
    timing: MasterTiming,
    report: [u8; REPORT_BYTES],
    report_filled: usize,
    /// Next offset to send; None before the slave has said where to start.
    next: Option<u64>,
    acked: Option<u64>,
    is_out_of_range: bool,
    last_report_ms: i64,
    last_frame_ms: i64,
}

impl MasterSide {
    /// A slave connected at `now_ms`, monotonic milliseconds.
    pub fn new(timing: MasterTiming, now_ms: i64) -> Self {
        Self {
            timing,
            report: [0; REPORT_BYTES],
            report_filled: 0,
            next: None,
            acked: None,
            is_out_of_range: false,
            last_report_ms: now_ms,
            // RocketMQ's first frame to a joining slave is a heartbeat.
            last_frame_ms: i64::MIN / 2,
        }
    }

    /// The slave's last acknowledgement; None before its first report.
    pub fn acked(&self) -> Option<u64> {
        self.acked
    }

    /// End of the sent bytes; None before the slave's first report.
    pub fn sent(&self) -> Option<u64> {
        self.next
    }

    /// Whether the slave asks for bytes below the start of the log. It gets heartbeats only, as
    /// from RocketMQ.
    pub fn is_out_of_range(&self) -> bool {
        self.is_out_of_range
    }

    /// Takes bytes from the slave. The log's range must not be older than the last frame sent.
    pub fn receive(&mut self, mut bytes: &[u8], log: LogRange, now_ms: i64) -> Result<(), Fault> {
        while !bytes.is_empty() {
            let count = bytes.len().min(REPORT_BYTES - self.report_filled);
            let (taken, rest) = bytes.split_at(count);
            self.report[self.report_filled..][..count].copy_from_slice(taken);
            self.report_filled += count;
            bytes = rest;
            if self.report_filled == REPORT_BYTES {
                self.report_filled = 0;
                self.last_report_ms = now_ms;
                self.reported(i64::from_be_bytes(self.report), log)?;
            }
        }
        Ok(())
    }

    fn reported(&mut self, offset: i64, log: LogRange) -> Result<(), Fault> {
        if self.next.is_none() && self.report[0] == HANDSHAKE_BYTE {
            return Err(Fault::Tls);
        }
        let offset = u64::try_from(offset).map_err(|_| Fault::Negative(offset))?;
        match (self.next, self.acked) {
            (Some(sent), Some(before)) => {
                if offset > sent {
                    return Err(Fault::NotSent {
                        acked: offset,
                        sent,
                    });
                }
                if offset < before {
                    return Err(Fault::Back {
                        acked: offset,
                        before,
                    });
                }
            }
            _ => self.next = Some(self.start(offset, log)?),
        }
        self.acked = Some(offset);
        Ok(())
    }

    fn start(&mut self, asked: u64, log: LogRange) -> Result<u64, Fault> {
        // 1 asks for byte 0, which cannot be asked for, and which an empty log will have.
        if asked > log.end.max(1) {
            let end = log.end;
            return Err(Fault::Ahead { asked, end });
        }
        if asked == 0 {
            return Ok(log.end - log.end % log.file_bytes);
        }
        self.is_out_of_range = asked < log.start;
        Ok(asked)
    }

    /// The next step.
    pub fn step(&self, log: LogRange, now_ms: i64) -> Result<Step, Fault> {
        self.check(now_ms)?;
        let Some(next) = self.next else {
            return Ok(Step::Wait(self.timing.heartbeat_ms));
        };
        let since_ms = now_ms.saturating_sub(self.last_frame_ms);
        if since_ms >= self.timing.heartbeat_ms {
            return Ok(Step::Heartbeat(header(next, 0)));
        }
        if self.is_out_of_range || next >= log.end {
            return Ok(Step::Wait(self.timing.heartbeat_ms - since_ms));
        }
        let in_file = log.file_bytes - next % log.file_bytes;
        let bytes = in_file.min(log.end - next);
        let most = self.timing.batch_bytes.clamp(1, BODY_BYTES_MAX);
        let bytes = usize::try_from(bytes).unwrap_or(most).min(most);
        Ok(Step::Data {
            offset: next,
            bytes,
        })
    }

    /// Whether the slave has been silent for too long.
    pub fn check(&self, now_ms: i64) -> Result<(), Fault> {
        let silent_ms = now_ms.saturating_sub(self.last_report_ms);
        match silent_ms > self.timing.housekeeping_ms {
            true => Err(Fault::Silent(silent_ms)),
            false => Ok(()),
        }
    }

    /// A frame with a body of `bytes` bytes follows, 0 for a heartbeat. Returns its header. Call
    /// it before the first byte leaves: the slave may acknowledge the frame at once.
    pub fn send(&mut self, bytes: usize, now_ms: i64) -> [u8; HEADER_BYTES] {
        self.last_frame_ms = now_ms;
        let offset = self.next.unwrap_or(0);
        self.next = self.next.map(|next| next + bytes as u64);
        header(offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogRange = LogRange {
        start: 2_000,
        end: 5_500,
        file_bytes: 1_000,
    };

    fn side() -> MasterSide {
        MasterSide::new(MasterTiming::default(), 0)
    }

    fn joined(at: u64) -> MasterSide {
        let mut side = side();
        side.receive(&at.to_be_bytes(), LOG, 0).unwrap();
        side
    }

    fn data(side: &mut MasterSide, now_ms: i64) -> (u64, usize) {
        match side.step(LOG, now_ms).unwrap() {
            Step::Data { offset, bytes } => {
                side.send(bytes, now_ms);
                (offset, bytes)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_joining_slave_gets_a_heartbeat_then_the_bytes_by_file() {
        let mut side = side();
        assert_eq!(side.step(LOG, 0), Ok(Step::Wait(5_000)));
        side.receive(&2_500_u64.to_be_bytes()[..3], LOG, 0).unwrap();
        assert_eq!(side.acked(), None, "half a report");
        side.receive(&2_500_u64.to_be_bytes()[3..], LOG, 0).unwrap();
        assert_eq!(side.step(LOG, 0), Ok(Step::Heartbeat(header(2_500, 0))));
        side.send(0, 0);
        let frames = [0; 4].map(|now_ms| data(&mut side, now_ms));
        assert_eq!(
            frames,
            [(2_500, 500), (3_000, 1_000), (4_000, 1_000), (5_000, 500)]
        );
        assert_eq!(side.step(LOG, 1_000), Ok(Step::Wait(4_000)));
        assert_eq!(side.step(LOG, 5_000), Ok(Step::Heartbeat(header(5_500, 0))));
    }

    #[test]
    fn an_empty_slave_starts_at_the_last_file() {
        let mut side = joined(0);
        side.send(0, 0);
        assert_eq!(data(&mut side, 0), (5_000, 500));
        side.receive(&0_u64.to_be_bytes(), LOG, 0).unwrap();
        side.receive(&5_500_u64.to_be_bytes(), LOG, 0).unwrap();
        assert_eq!(side.acked(), Some(5_500));
    }

    #[test]
    fn below_the_first_file_there_are_heartbeats_only() {
        let mut side = joined(1_999);
        assert_eq!(side.step(LOG, 0), Ok(Step::Heartbeat(header(1_999, 0))));
        side.send(0, 0);
        assert_eq!(side.step(LOG, 1), Ok(Step::Wait(4_999)));
        assert!(side.is_out_of_range());
    }

    #[test]
    fn what_a_slave_cannot_have_is_refused() {
        let mut fresh = side();
        let ahead = Fault::Ahead {
            asked: 5_501,
            end: 5_500,
        };
        assert_eq!(fresh.receive(&5_501_u64.to_be_bytes(), LOG, 0), Err(ahead));
        let fault = side().receive(&[0xFF; 8], LOG, 0);
        assert_eq!(fault, Err(Fault::Negative(-1)));
        let mut side = joined(3_000);
        side.send(100, 0);
        let fault = side.receive(&3_101_u64.to_be_bytes(), LOG, 0);
        let (acked, sent) = (3_101, 3_100);
        assert_eq!(fault, Err(Fault::NotSent { acked, sent }));
        let fault = side.receive(&2_999_u64.to_be_bytes(), LOG, 0);
        let (acked, before) = (2_999, 3_000);
        assert_eq!(fault, Err(Fault::Back { acked, before }));
    }

    #[test]
    fn a_slave_that_never_finishes_a_report_is_gone() {
        let mut side = joined(3_000);
        side.receive(&[0; 7], LOG, 20_000).unwrap();
        assert_eq!(side.check(20_000), Ok(()));
        assert_eq!(side.step(LOG, 20_001), Err(Fault::Silent(20_001)));
    }
}
