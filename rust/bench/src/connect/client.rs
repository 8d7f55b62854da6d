//! One connection of a storm.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::Event;
use crate::BenchError;
use mq_format::remoting::{Frame, HeaderLimits};
use mq_net::connect::ConnectError;
use mq_net::connection::Connection;
use mq_net::frame::FrameSplitter;
use mq_net::receiver::Receiver;

/// Largest frame received: a heartbeat's reply, or a notice that a group has changed.
const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Bytes that may wait to be written on a connection. A heartbeat is queued as a whole.
const WAITING_BYTES_MAX: usize = 64 * 1024;

/// One connection.
pub(super) struct Client {
    pub address: String,
    /// Empty for none.
    pub heartbeat: Arc<[u8]>,
    pub due: Instant,
    pub every: Duration,
    pub timeout: Duration,
    /// None is plain.
    pub tls: Option<Arc<ClientConfig>>,
    pub events: mpsc::UnboundedSender<Event>,
}

impl Client {
    /// Connects, and holds the connection until `over` ends.
    pub async fn live(self, mut over: watch::Receiver<()>) {
        let mut line = match self.open().await {
            Ok(line) => line,
            Err(cause) => return self.tell(Event::Failed(self.io_error(cause))),
        };
        let now = Instant::now();
        let took = now.saturating_duration_since(self.due);
        self.tell(Event::Connected { took, at: now });
        let connection = Arc::clone(&line.connection);
        tokio::select! {
            _ = over.changed() => {}
            () = connection.drive_writes() => {
                let cause = io::ErrorKind::BrokenPipe.into();
                self.tell(Event::Dropped(self.io_error(cause)));
            }
            cause = self.hold(&mut line) => self.tell(Event::Dropped(self.io_error(cause))),
        }
        connection.close();
    }

    async fn open(&self) -> io::Result<Line> {
        let tls = self.tls.clone();
        let opened = Connection::dial(&self.address, self.timeout, tls, WAITING_BYTES_MAX).await;
        let (connection, receiver) = opened.map_err(cause_of)?;
        Ok(Line {
            connection,
            receiver,
            splitter: FrameSplitter::new(FRAME_BYTES_MAX, HeaderLimits::NONE),
            frames: VecDeque::new(),
        })
    }

    /// Sends heartbeats and reads the replies; returns why the connection ended.
    async fn hold(&self, line: &mut Line) -> io::Error {
        loop {
            let beat = match self.beat(line).await {
                Ok(()) => sleep(self.every),
                Err(cause) => return cause,
            };
            let ended = tokio::select! {
                () = beat => continue,
                ended = line.ignore() => ended,
            };
            return ended;
        }
    }

    /// One heartbeat and its reply.
    async fn beat(&self, line: &mut Line) -> io::Result<()> {
        if self.heartbeat.is_empty() {
            return Ok(());
        }
        let begin = Instant::now();
        let sent = line.connection.send_slice(&self.heartbeat);
        sent.map_err(io::Error::other)?;
        loop {
            let bytes = timeout(self.timeout, line.read_frame()).await;
            let bytes = bytes.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            let frame = Frame::decode(&bytes).map_err(io::Error::other)?;
            if !frame.is_response() {
                continue; // a notice that the group has changed
            }
            let event = match frame.code {
                0 => Event::Heartbeat {
                    took: begin.elapsed(),
                },
                code => Event::Refused {
                    code,
                    remark: frame.remark.unwrap_or_default().into_owned(),
                },
            };
            self.tell(event);
            return Ok(());
        }
    }

    fn tell(&self, event: Event) {
        // The collector outlives all tasks unless the run has failed; then the event is not needed.
        let _ = self.events.send(event);
    }

    fn io_error(&self, cause: io::Error) -> BenchError {
        BenchError::Io {
            address: self.address.clone(),
            cause,
        }
    }
}

/// The two sides of a connection, and the received bytes; it keeps no buffer while it waits.
struct Line {
    connection: Arc<Connection>,
    receiver: Receiver,
    splitter: FrameSplitter,
    /// Frames that came together with an earlier one.
    frames: VecDeque<Vec<u8>>,
}

impl Line {
    /// The next frame. The future may be dropped at any time.
    async fn read_frame(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Ok(frame);
            }
            let take = |frame: &[u8]| {
                self.frames.push_back(frame.to_vec());
                Ok(())
            };
            if self.receiver.receive(&mut self.splitter, take).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads the broker's own requests until the connection ends.
    async fn ignore(&mut self) -> io::Error {
        loop {
            if let Err(cause) = self.read_frame().await {
                return cause;
            }
        }
    }
}

/// A failure's cause, without the address, which is reported beside it.
fn cause_of(error: ConnectError) -> io::Error {
    match error {
        ConnectError::Failed { cause, .. } => cause,
        ConnectError::Timeout { .. } => io::ErrorKind::TimedOut.into(),
        ConnectError::Tls { cause, .. } => io::Error::other(format!("no TLS: {cause}")),
    }
}
