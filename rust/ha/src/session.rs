//! A slave's connection to its master, around [`SlaveSide`].

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::channel::{Channel, LOOK, is_pause};
use crate::protocol::{Fault, Overlap, SlaveLog, SlaveSide, SlaveStart};
use crate::slave::{Ended, Shared, Target};
use crate::slave_status::SlaveState;
use mq_store::{Store, StoreError};

/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;
/// Bytes of this log read at once for a comparison.
const COMPARE_BYTES: usize = 64 << 10;
/// If a master sends nothing for this time, its log has no more of the overlap.
const OVERLAP_PATIENCE_MS: i64 = 2_000;

impl Shared {
    /// Follows the master at `address` until the connection ends.
    pub(crate) fn follow(&self, address: &str, target: &Target) -> Result<(), Ended> {
        let channel = Arc::new(connect(address, self.settings.connect_timeout)?);
        *self.live.lock() = Some(Arc::clone(&channel));
        if self.is_stopped() || self.is_other(target) {
            return Ok(());
        }
        let tls = self.tls.lock().clone();
        if let Some(tls) = tls {
            channel.connect(address, tls)?;
        }
        channel.set_read_timeout(LOOK)?;
        let own = |error: StoreError| Ended::Fault(Fault::OwnLog(error.to_string()));
        // The comparison reads these bytes.
        let end = self.store.settle_raw().map_err(own)?;
        let range = self.target.lock().range;
        let start = SlaveStart {
            start: self.store.raw_range().0,
            end,
            file_bytes: self.store.log_file_bytes(),
            first_offset: target.first_offset,
            master_start: range.map(|(start, _)| start),
            last_stored_ms: self.store.last_store_time_ms(),
        };
        let mut status = self.status.lock();
        status.state = SlaveState::Waiting;
        status.connects += 1;
        status.master_offset = None;
        drop(status);
        tracing::info!(end, "following the master {address}");
        let session = Session {
            shared: self,
            side: SlaveSide::new(self.settings.timing, start, self.clock.monotonic_ms()),
            log: StoreLog {
                store: &self.store,
                address,
                buffer: Vec::new(),
            },
            channel,
            last_data_ms: self.clock.monotonic_ms(),
        };
        session.run()
    }
}

/// A connection to the master.
struct Session<'a> {
    shared: &'a Shared,
    side: SlaveSide,
    log: StoreLog<'a>,
    channel: Arc<Channel>,
    /// When bytes of the log came last, monotonic milliseconds.
    last_data_ms: i64,
}

impl Session<'_> {
    fn run(mut self) -> Result<(), Ended> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            self.report()?;
            let count = match self.channel.read(&mut buffer) {
                Ok(0) if self.side.is_tls_alert() => return Err(Fault::Tls.into()),
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if is_pause(&error) => 0,
                Err(error) => return Err(Ended::Socket(error)),
            };
            let now_ms = self.shared.clock.monotonic_ms();
            if count == 0 {
                self.side.check(now_ms)?;
            } else {
                self.take(&buffer[..count], now_ms)?;
            }
            self.note(count, now_ms);
            if self.shared.is_stopped() {
                return Ok(());
            }
        }
    }

    fn take(&mut self, bytes: &[u8], now_ms: i64) -> Result<(), Ended> {
        let before = self.side.master_end();
        let taken = self.side.receive(bytes, now_ms, &mut self.log);
        if self.side.master_end() > before {
            self.last_data_ms = now_ms;
        }
        Ok(taken?)
    }

    fn report(&mut self) -> Result<(), Ended> {
        let settled = match self.shared.settings.ack_flushed {
            true => self.shared.store.flush_raw(),
            false => self.shared.store.settle_raw(),
        };
        let end = settled.map_err(|error| Fault::OwnLog(error.to_string()))?;
        let now_ms = self.shared.clock.monotonic_ms();
        if let Some(report) = self.side.report(end, now_ms) {
            self.channel.write_all(&report)?;
            let mut status = self.shared.status.lock();
            status.last_write_ms = self.shared.clock.wall_ms();
            status.reported = self.side.reported();
        }
        Ok(())
    }

    /// Publishes the connection's state.
    fn note(&self, count: usize, now_ms: i64) {
        let state = match self.side.overlap() {
            _ if !self.side.is_told() => SlaveState::Waiting,
            Overlap::Equal => SlaveState::Transfer,
            Overlap::Compared { .. } if now_ms - self.last_data_ms < OVERLAP_PATIENCE_MS => {
                SlaveState::Verifying
            }
            Overlap::Compared { .. } => SlaveState::Ahead,
        };
        let (_, end) = self.shared.store.raw_range();
        let mut status = self.shared.status.lock();
        if state == SlaveState::Transfer && status.master_offset <= Some(end) {
            self.shared.level_ms.store(now_ms, Ordering::Release);
        }
        if state != status.state {
            self.changed(state);
        }
        if state == SlaveState::Transfer {
            status.reason.clear();
        }
        status.state = state;
        if count > 0 {
            status.last_read_ms = self.shared.clock.wall_ms();
            status.master_offset = status.master_offset.max(Some(self.side.master_end()));
            drop(status);
            self.shared.meter.lock().count(count, now_ms);
        }
    }

    fn changed(&self, state: SlaveState) {
        let (_, end) = self.shared.store.raw_range();
        match state {
            SlaveState::Transfer => tracing::info!(end, "this log agrees with the master's"),
            SlaveState::Ahead => {
                let master = self.side.master_end();
                tracing::error!(
                    "this log ends at {end}, and the master sends nothing beyond {master}: it lost \
                     messages, or its log begins later; nothing is copied until its log is longer \
                     and equal"
                );
            }
            _ => {}
        }
    }
}

fn connect(address: &str, timeout: Duration) -> io::Result<Channel> {
    let mut failure = io::Error::other(format!("{address} has no address"));
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(Channel::new(stream));
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The store as the protocol sees it.
struct StoreLog<'a> {
    store: &'a Store,
    /// Address of the master.
    address: &'a str,
    buffer: Vec<u8>,
}

impl SlaveLog for StoreLog<'_> {
    fn compare(&mut self, mut offset: u64, mut bytes: &[u8]) -> Result<Option<u64>, String> {
        self.buffer.resize(COMPARE_BYTES, 0);
        while !bytes.is_empty() {
            let count = bytes.len().min(COMPARE_BYTES);
            let own = self.store.read_raw(offset, &mut self.buffer[..count]);
            let count = own.map_err(|error| format!("read of the own log at {offset}: {error}"))?;
            if count == 0 {
                return Err(format!("the own log has nothing at {offset}"));
            }
            let pairs = self.buffer[..count].iter().zip(bytes);
            if let Some(at) = pairs.clone().position(|(own, other)| own != other) {
                return Ok(Some(offset + at as u64));
            }
            offset += count as u64;
            bytes = &bytes[count..];
        }
        Ok(None)
    }

    fn skip_to(&mut self, offset: u64) -> Result<(), String> {
        let (_, end) = self.store.raw_range();
        tracing::warn!(
            "the log of the master {} begins at {offset}, after the end of this one at {end}: it \
             has deleted what is between. This log keeps what it has, and goes on at {offset}. \
             Nothing shows whether both logs have one origin: if this broker never followed that \
             master, stop it, move its store away and start it again",
            self.address
        );
        let skipped = self.store.skip_raw(offset);
        skipped.map_err(|error| error.to_string())
    }

    fn append(
        &mut self,
        offset: u64,
        bytes: &[u8],
        store_timestamp_ms: Option<i64>,
    ) -> Result<(), String> {
        let appended = self.store.append_raw(offset, bytes, store_timestamp_ms);
        appended.map(drop).map_err(|error| error.to_string())
    }
}
