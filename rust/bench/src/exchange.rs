//! A blocking connection of one worker.

use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;

use super::tls::{Tls, TlsSession};
use super::{BenchError, Load};
use mq_format::remoting::{FieldValue, Frame, Head, HeaderLimits, MAX_FRAME_BYTES, Serialize};
use mq_net::frame::{FrameBytes, FrameSplitter};
use mq_net::tls::CIPHER_BYTES;

/// Largest number of bytes received at once: one TLS read after decryption, and the rest of a
/// record that began before.
const INPUT_BYTES: usize = CIPHER_BYTES + (16 << 10);

/// Requests of `call_all` on the wire at a time: their replies fit in the socket's buffers.
const CALLS_AT_ONCE: usize = 128;
/// The opaque of the first of these requests. Pulls that are in flight have smaller ones.
const FIRST_CALL: i32 = 1 << 30;

/// A socket, the bytes received and not yet read, and the bytes not yet written.
pub(super) struct Exchange {
    pub address: String,
    stream: TcpStream,
    splitter: FrameSplitter,
    input: Box<[u8]>,
    /// Where in `input` the bytes are that the splitter was not given yet.
    unread: Range<usize>,
    /// The frame that was taken last, if it came in several pieces.
    whole: Vec<u8>,
    /// Bytes to write; those before `written` have been written.
    outgoing: Vec<u8>,
    written: usize,
    heard_at: Instant,
    timeout: Duration,
    /// Encrypts and decrypts, if the run uses TLS.
    tls: Option<Box<TlsSession>>,
}

impl Exchange {
    pub fn connect(address: &str, load: &Load) -> Result<Self, BenchError> {
        let timeout = load.timeout();
        let tls = load.tls.as_ref().map(Tls::shared).transpose()?;
        let failed = |cause| BenchError::Io {
            address: address.to_owned(),
            cause,
        };
        let stream = open(address, timeout).map_err(failed)?;
        let tls = tls.map(|config| TlsSession::connect(&stream, address, config, timeout));
        let tls = tls.transpose().map_err(failed)?.map(Box::new);
        stream.set_read_timeout(Some(timeout)).map_err(failed)?;
        Ok(Self {
            address: address.to_owned(),
            stream,
            splitter: FrameSplitter::new(MAX_FRAME_BYTES, HeaderLimits::NONE),
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            unread: 0..0,
            whole: Vec::new(),
            outgoing: Vec::new(),
            written: 0,
            heard_at: Instant::now(),
            timeout,
            tls,
        })
    }

    /// Connects to a broker of a route; the error says that the address comes from the route.
    pub fn to_broker(address: &str, load: &Load) -> Result<Self, BenchError> {
        Self::connect(address, load).map_err(|error| match error {
            BenchError::Io { address, cause } => BenchError::Broker { address, cause },
            other => other,
        })
    }

    /// The buffer into which requests are encoded; `flush` writes it.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// Whether bytes wait to be written.
    pub fn is_writing(&self) -> bool {
        let sealed = self.tls.as_ref().is_some_and(|tls| tls.is_writing());
        sealed || !self.outgoing.is_empty()
    }

    /// Writes the bytes that the socket takes now, without waiting. The broker may itself wait
    /// until this side reads.
    pub fn flush(&mut self) -> Result<(), BenchError> {
        let bytes = match &mut self.tls {
            None => &mut self.outgoing,
            Some(tls) => tls.seal(&mut self.outgoing),
        };
        match write(&self.stream, bytes, &mut self.written) {
            Ok(()) if self.written == bytes.len() => {
                bytes.clear();
                self.written = 0;
                Ok(())
            }
            Ok(()) => Ok(()),
            Err(error) => Err(self.io_error(error)),
        }
    }

    /// Waits for bytes; true if some came. Frames are then taken with `next_frame`.
    pub fn receive(&mut self) -> Result<bool, BenchError> {
        if !self.unread.is_empty() {
            return Ok(true);
        }
        let received = match &mut self.tls {
            None => (self.stream.read(&mut self.input)).map(|count| (count > 0).then_some(count)),
            Some(tls) => tls.receive(&mut self.stream, &mut self.input),
        };
        match received {
            Ok(None) => Err(self.io_error(io::ErrorKind::UnexpectedEof.into())),
            Ok(Some(count)) => {
                self.unread = 0..count;
                self.heard_at = Instant::now();
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(self.io_error(io::ErrorKind::TimedOut.into()))
            }
            Err(error) => Err(self.io_error(error)),
        }
    }

    /// Waits for bytes at most until `until`. Room to write also ends the wait, if bytes wait to be
    /// written.
    pub fn receive_until(&mut self, until: Instant) -> Result<bool, BenchError> {
        let left = until.saturating_duration_since(Instant::now());
        let mut wanted = PollFlags::IN;
        wanted.set(PollFlags::OUT, self.is_writing());
        let mut sockets = [PollFd::new(&self.stream, wanted)];
        let timespec = Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut sockets, Some(&timespec)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(self.io_error(error.into())),
        }
        let ready = sockets[0].revents();
        if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            return self.receive();
        }
        Ok(false)
    }

    /// Returns an error if nothing was received for the timeout, counted from `since` if that is
    /// later.
    pub fn check_alive(&self, now: Instant, since: Instant) -> Result<(), BenchError> {
        if now.saturating_duration_since(self.heard_at.max(since)) < self.timeout {
            return Ok(());
        }
        Err(self.io_error(io::ErrorKind::TimedOut.into()))
    }

    /// The next whole frame that has been received, which may be a server's own request.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, BenchError> {
        let mut bytes = &self.input[self.unread.clone()];
        let next = self.splitter.next(&mut bytes);
        self.unread.start = self.unread.end - bytes.len();
        let frame = match next {
            Ok(None) => return Ok(None),
            Ok(Some(FrameBytes::Among(bytes))) => Frame::decode(bytes),
            Ok(Some(FrameBytes::Own(bytes))) => {
                self.whole = bytes;
                Frame::decode(&self.whole)
            }
            Err(error) => Err(error),
        };
        frame.map(Some).map_err(|error| BenchError::Wire {
            address: self.address.clone(),
            cause: error.to_string(),
        })
    }

    /// Sends one request and waits for its reply.
    pub fn call(
        &mut self,
        load: &Load,
        code: i32,
        fields: &[(&str, FieldValue<'_>)],
    ) -> Result<Answer, BenchError> {
        let encode = |_, opaque, out: &mut Vec<u8>| {
            let head = Head::request(code, opaque, Serialize::Json);
            load.encode(&head, fields, b"", out);
        };
        let mut answers = self.call_all(1, encode)?;
        answers.pop().ok_or(BenchError::Worker)
    }

    /// Sends `count` requests, several at a time, and returns their replies in the same order.
    pub fn call_all(
        &mut self,
        count: usize,
        encode: impl Fn(usize, i32, &mut Vec<u8>),
    ) -> Result<Vec<Answer>, BenchError> {
        let mut answers: Vec<Option<Answer>> = Vec::new();
        answers.resize_with(count, || None);
        for first in (0..count).step_by(CALLS_AT_ONCE) {
            let chunk = first..(first + CALLS_AT_ONCE).min(count);
            let sent_at = Instant::now();
            chunk
                .clone()
                .for_each(|index| encode(index, FIRST_CALL + index as i32, &mut self.outgoing));
            self.flush()?;
            let mut waiting = chunk.len();
            while waiting > 0 {
                self.receive_until(sent_at + self.timeout)?;
                self.flush()?;
                self.check_alive(Instant::now(), sent_at)?;
                while let Some(frame) = self.next_frame()? {
                    let place = frame.opaque.wrapping_sub(FIRST_CALL) as usize;
                    let place = answers.get_mut(place);
                    if let (Some(place @ None), true) = (place, frame.is_response()) {
                        *place = Some(Answer::of(&frame, sent_at.elapsed()));
                        waiting -= 1;
                    }
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    fn io_error(&self, cause: io::Error) -> BenchError {
        BenchError::Io {
            address: self.address.clone(),
            cause,
        }
    }
}

fn open(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for place in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Writes the bytes that the socket takes now, from `written` on.
fn write(stream: &TcpStream, bytes: &[u8], written: &mut usize) -> io::Result<()> {
    while *written < bytes.len() {
        // As in the standard library: writing to a closed connection is an error, not a SIGPIPE.
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        match SockRef::from(stream).send_with_flags(&bytes[*written..], flags) {
            Ok(count) => *written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// An owned reply.
pub(super) struct Answer {
    pub code: i32,
    pub remark: String,
    pub body: Vec<u8>,
    /// Time from the request to this reply.
    pub took: Duration,
    offset: Option<i64>,
}

impl Answer {
    fn of(frame: &Frame<'_>, took: Duration) -> Self {
        Self {
            code: frame.code,
            remark: frame.remark.as_deref().unwrap_or_default().to_owned(),
            body: frame.body.to_vec(),
            took,
            offset: frame.ext.get("offset").and_then(|text| text.parse().ok()),
        }
    }

    /// The reply if its code is 0.
    pub fn accepted(self, address: &str) -> Result<Self, BenchError> {
        if self.code == 0 {
            return Ok(self);
        }
        let (address, code) = (address.to_owned(), self.code);
        Err(BenchError::Refused {
            address,
            code,
            remark: self.remark,
        })
    }

    /// The field `offset`.
    pub fn offset(&self, address: &str) -> Result<i64, BenchError> {
        let missing = || BenchError::Wire {
            address: address.to_owned(),
            cause: "a reply without offset".to_owned(),
        };
        self.offset.ok_or_else(missing)
    }
}
