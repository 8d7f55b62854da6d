//! A master's connection with one slave, around [`MasterSide`](crate::protocol::MasterSide).

use std::io;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::channel::{LOOK, is_pause};
use crate::master::{READS, Shared, Slave, SlaveRow};
use crate::meter::Limit;
use crate::protocol::{Fault, HEADER_BYTES, LogRange, Step};

const SENDS: &str = "mq-ha-send";
/// While no send waits for slaves, messages of this time are sent together.
const NAP: Duration = Duration::from_millis(1);
/// Frames are written together up to about this size.
const WRITE_BYTES: usize = 256 << 10;

impl Shared {
    /// Reads and sends until the connection ends.
    pub(crate) fn run(&self, slave: &Slave) {
        let reason = match self.services.round(READS, || self.prepare(slave)) {
            Ok(Ok(())) => self.exchange(slave),
            Ok(Err(error)) => Ended::Socket(error),
            Err(_) => Ended::Panicked,
        };
        self.log_end(slave, reason);
    }

    fn prepare(&self, slave: &Slave) -> io::Result<()> {
        let tls = self.tls.lock().clone();
        if let Some(tls) = tls {
            slave.channel.accept(tls)?;
        }
        slave.channel.set_read_timeout(LOOK)
    }

    fn exchange(&self, slave: &Slave) -> Ended {
        thread::scope(|scope| {
            let send = || {
                let sent = self.services.round(SENDS, || self.send_all(slave));
                slave.close();
                sent.unwrap_or(Ended::Panicked)
            };
            let sender = thread::Builder::new()
                .name(SENDS.into())
                .spawn_scoped(scope, send);
            let sender = match sender {
                Ok(sender) => sender,
                Err(error) => return Ended::Socket(error),
            };
            let read = self.services.round(READS, || self.read_all(slave));
            slave.replica.withdraw();
            slave.close();
            self.store.wake_senders();
            let sent = sender.join().unwrap_or(Ended::Closed);
            // The first reason closed the socket, which is the reason of the other thread.
            match read.unwrap_or(Ended::Panicked) {
                Ended::Closed => sent,
                read => read,
            }
        })
    }

    fn log_end(&self, slave: &Slave, reason: Ended) {
        let (address, acked) = (slave.address, slave.side.lock().acked());
        let acked = acked.map_or(-1, u64::cast_signed);
        match reason {
            _ if self.is_stopped.load(Ordering::Acquire) => {}
            Ended::Closed => tracing::info!(acked, "the slave {address} has left"),
            Ended::Socket(error) => {
                tracing::info!(acked, %error, "the connection of the slave {address} is lost");
            }
            Ended::Fault(fault) => {
                tracing::warn!(
                    acked,
                    "closed the connection of the slave {address}: {fault}"
                );
            }
            Ended::Panicked => {}
        }
    }

    fn read_all(&self, slave: &Slave) -> Ended {
        let mut buffer = [0; 1_024];
        loop {
            let count = match slave.channel.read(&mut buffer) {
                Ok(0) => return Ended::Closed,
                Ok(count) => count,
                Err(error) if is_pause(&error) => 0,
                Err(_) if slave.is_closed() => return Ended::Closed,
                Err(error) => return Ended::Socket(error),
            };
            let taken = match count {
                0 => slave.side.lock().check(self.clock.monotonic_ms()),
                count => self.take(slave, &buffer[..count]),
            };
            if let Err(fault) = taken {
                return Ended::Fault(fault);
            }
        }
    }

    /// Takes bytes of the slave's reports.
    fn take(&self, slave: &Slave, bytes: &[u8]) -> Result<(), Fault> {
        let mut side = slave.side.lock();
        let before = side.acked();
        // Under the lock: nothing is sent meanwhile.
        side.receive(bytes, self.range(), self.clock.monotonic_ms())?;
        let (acked, sent, is_out_of_range) = (side.acked(), side.sent(), side.is_out_of_range());
        drop(side);
        let (Some(acked), Some(sent)) = (acked, sent) else {
            return Ok(());
        };
        if before.is_none() {
            self.doubt_others(slave);
            self.joined(slave, sent, is_out_of_range);
        }
        let was_in_doubt = slave.is_in_doubt.swap(false, Ordering::AcqRel);
        if (before != Some(acked) || was_in_doubt) && !is_out_of_range {
            slave.replica.acknowledge(acked);
        }
        slave.counted.store(acked.cast_signed(), Ordering::Release);
        Ok(())
    }

    fn joined(&self, slave: &Slave, from: u64, is_out_of_range: bool) {
        let (start, end) = self.store.raw_range();
        let address = slave.address;
        if is_out_of_range {
            tracing::warn!(
                "the slave {address} ends at {from}, before this log's start {start}: it gets \
                 nothing. A slave of mqstack asks for the start next; empty the store of a slave \
                 of RocketMQ, so that it begins anew"
            );
        } else {
            let behind = end.saturating_sub(from);
            tracing::info!(from, behind, "the slave {address} has joined");
        }
        self.store.wake_senders();
    }

    fn send_all(&self, slave: &Slave) -> Ended {
        let mut limit = Limit::new(self.settings.bytes_per_second_max);
        let mut out = Vec::new();
        while !slave.is_closed() && !self.is_stopped.load(Ordering::Acquire) {
            out.clear();
            let filled = match self.fill(slave, &mut out, limit.share()) {
                Ok(filled) => filled,
                Err(ended) => return ended,
            };
            if out.is_empty() {
                self.rest(slave, filled.wait_ms);
                continue;
            }
            if let Err(error) = slave.channel.write_all(&out) {
                return match slave.is_closed() {
                    true => Ended::Closed,
                    false => Ended::Socket(error),
                };
            }
            let now_ms = self.clock.monotonic_ms();
            slave.meter.lock().count(out.len(), now_ms);
            let pause_ms = limit.pause_ms(filled.log_bytes, now_ms);
            thread::sleep(Duration::from_millis(pause_ms));
        }
        Ended::Closed
    }

    /// Adds frames to `out`, with at most `share` bytes of the log.
    fn fill(&self, slave: &Slave, out: &mut Vec<u8>, share: usize) -> Result<Filled, Ended> {
        let mut filled = Filled {
            wait_ms: 0,
            log_bytes: 0,
        };
        loop {
            let now_ms = self.clock.monotonic_ms();
            let step = slave.side.lock().step(self.range(), now_ms);
            match step.map_err(Ended::Fault)? {
                Step::Wait(at_most_ms) => {
                    filled.wait_ms = at_most_ms;
                    return Ok(filled);
                }
                Step::Heartbeat(_) => out.extend(slave.side.lock().send(0, now_ms)),
                Step::Data { offset, bytes } => {
                    let from = out.len();
                    let most = bytes.min(share - filled.log_bytes);
                    out.resize(from + HEADER_BYTES + most, 0);
                    let body = &mut out[from + HEADER_BYTES..];
                    let read = self.store.read_raw(offset, body).map_err(Ended::Socket)?;
                    if read == 0 {
                        let gone = "the bytes it needs next were deleted";
                        return Err(Ended::Socket(io::Error::other(gone)));
                    }
                    out.truncate(from + HEADER_BYTES + read);
                    let header = slave.side.lock().send(read, now_ms);
                    out[from..from + HEADER_BYTES].copy_from_slice(&header);
                    filled.log_bytes += read;
                }
            }
            if out.len() >= WRITE_BYTES || filled.log_bytes >= share {
                return Ok(filled);
            }
        }
    }

    /// Waits for the log to grow, or for a report.
    fn rest(&self, slave: &Slave, at_most_ms: i64) {
        if !self.store.awaits_slaves() {
            thread::sleep(NAP);
        }
        let at_most = Duration::from_millis(at_most_ms.max(1).unsigned_abs()).min(LOOK);
        let side = slave.side.lock();
        let sent = side.sent().filter(|_| !side.is_out_of_range());
        drop(side);
        self.store.wait_beyond(sent.unwrap_or(u64::MAX), at_most);
    }

    /// The figures of a slave.
    pub(crate) fn row(&self, slave: &Slave, now_ms: i64) -> SlaveRow {
        let (_, end) = self.store.raw_range();
        let acked = u64::try_from(slave.counted.load(Ordering::Acquire)).ok();
        let lag_ms = match acked.filter(|acked| *acked < end) {
            None => acked.map(|_| 0),
            Some(acked) => {
                let stored_ms = self.store.raw_store_time_ms(acked);
                stored_ms.map(|stored_ms| (self.clock.wall_ms() - stored_ms).max(0))
            }
        };
        let side = slave.side.lock();
        let meter = slave.meter.lock();
        SlaveRow {
            address: slave.address,
            acked,
            sent: side.sent(),
            is_out_of_range: side.is_out_of_range(),
            lag_bytes: end.saturating_sub(acked.unwrap_or(0)),
            lag_ms,
            bytes_sent: meter.total(),
            bytes_per_second: meter.rate(now_ms),
            connected_ms: now_ms - slave.connected_at_ms,
        }
    }

    fn range(&self) -> LogRange {
        let (start, end) = self.store.raw_range();
        LogRange {
            start,
            end,
            file_bytes: self.store.log_file_bytes(),
        }
    }
}

impl Slave {
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.channel.close();
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }
}

/// Frames to write.
struct Filled {
    /// How long nothing is due, if there are none.
    wait_ms: i64,
    /// Bytes of the log in them.
    log_bytes: usize,
}

/// Why a connection ended.
#[derive(Debug)]
enum Ended {
    /// By the slave, or by this side.
    Closed,
    Socket(io::Error),
    Fault(Fault),
    /// The services have its text.
    Panicked,
}
