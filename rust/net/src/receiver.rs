//! The receiving side of a connection, plain or under TLS.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::tcp::OwnedReadHalf;

use super::connection::Connection;
use super::frame::FrameSplitter;
use super::tls::{CIPHER_BYTES, Session};

/// Largest number of bytes received at once.
pub const READ_BYTES: usize = 256 << 10;

thread_local! {
    /// Received bytes, until they are cut into frames.
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Received ciphertext until it is decrypted, so that no connection needs its own buffer for
    /// it.
    static CIPHER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Returns a thread's buffer and allocates it at first use. A failed allocation is an error of the
/// connection, because it must not end the process.
fn made(buffer: &mut Vec<u8>, bytes: usize) -> io::Result<&mut [u8]> {
    if buffer.is_empty() {
        let reserved = buffer.try_reserve_exact(bytes);
        reserved.map_err(|_| io::Error::from(rustix::io::Errno::NOMEM))?;
        buffer.resize(bytes, 0);
    }
    Ok(buffer)
}

/// The receiving side of a connection; owned by the one task that reads.
#[derive(Debug)]
pub struct Receiver {
    stream: OwnedReadHalf,
    /// Decrypts received bytes, if the connection is under TLS.
    opener: Option<Opener>,
}

#[derive(Debug)]
struct Opener {
    connection: Arc<Connection>,
    /// Decrypted bytes that did not fit into the caller's buffer; at most one record.
    rest: Vec<u8>,
    records: Records,
    ended: bool,
}

/// Follows the borders of TLS records: type 1 byte, version 2, length 2, then the content.
#[derive(Debug, Default)]
struct Records {
    header: [u8; 5],
    /// Received bytes of the current record, its header included; 0 between records.
    came: usize,
}

impl Records {
    fn begun_bytes(&self) -> usize {
        self.came
    }

    fn size(&self) -> usize {
        let [.., high, low] = self.header;
        self.header.len() + usize::from(u16::from_be_bytes([high, low]))
    }

    fn pass(&mut self, mut bytes: &[u8]) {
        while let [first, rest @ ..] = bytes {
            if self.came < self.header.len() {
                self.header[self.came] = *first;
                self.came += 1;
                bytes = rest;
            } else {
                let more = bytes.len().min(self.size() - self.came);
                self.came += more;
                bytes = &bytes[more..];
            }
            if self.came >= self.header.len() && self.came == self.size() {
                self.came = 0;
            }
        }
    }
}

impl Receiver {
    pub(super) fn new(stream: OwnedReadHalf) -> Self {
        Self {
            stream,
            opener: None,
        }
    }

    /// Receives more bytes, and passes each frame that is complete then to `take`. Returns the
    /// number of bytes; 0 means that either side closed.
    ///
    /// # Errors
    /// The socket's error, an invalid frame, or an error of `take`; the connection should then be
    /// closed.
    pub async fn receive(
        &mut self,
        splitter: &mut FrameSplitter,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<usize> {
        poll_fn(|context| {
            INPUT.with_borrow_mut(|input| {
                let input = made(input, READ_BYTES)?;
                let (count, mut bytes) = ready!(self.poll_receive(context, splitter, input))?;
                while let Some(whole) = splitter.next(&mut bytes).map_err(io::Error::other)? {
                    take(whole.bytes())?;
                }
                Poll::Ready(Ok(count))
            })
        })
        .await
    }

    /// Receives the bytes in the socket: as many as fit into `input`, or up to `READ_BYTES` of a
    /// large frame. Returns the number of bytes, and the bytes to give to `splitter`: none if they
    /// went into the buffer of the large frame. Many connections can share one `input`.
    pub fn poll_receive<'i>(
        &mut self,
        context: &mut Context<'_>,
        splitter: &mut FrameSplitter,
        input: &'i mut [u8],
    ) -> Poll<io::Result<(usize, &'i [u8])>> {
        if self.is_plain()
            && let Some((frame, missing)) = splitter.large(input.len())
        {
            let mut room = frame.limit(missing.min(READ_BYTES));
            let count = ready!(pin!(self.stream.read_buf(&mut room)).poll(context))?;
            return Poll::Ready(Ok((count, &[])));
        }
        let count = ready!(self.poll_bytes(context, input))?;
        Poll::Ready(Ok((count, &input[..count])))
    }

    fn poll_bytes(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.opener.is_some() {
            return self.poll_opened(context, buffer);
        }
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Whether the connection has no TLS.
    pub fn is_plain(&self) -> bool {
        self.opener.is_none()
    }

    fn poll_opened(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Some(opener) = &mut self.opener else {
            return Poll::Ready(Ok(0));
        };
        let stream = &mut self.stream;
        CIPHER.with_borrow_mut(|cipher| {
            let cipher = made(cipher, CIPHER_BYTES)?;
            loop {
                let count = opener.take_rest(buffer);
                if count > 0 || opener.ended {
                    return Poll::Ready(Ok(count));
                }
                // Reads no more than fits into `buffer` when decrypted, except for a record that
                // began before.
                let room = cipher.len().min(buffer.len().max(CIPHER_BYTES / 4));
                let mut sealed = ReadBuf::new(&mut cipher[..room]);
                ready!(Pin::new(&mut *stream).poll_read(context, &mut sealed))?;
                if sealed.filled().is_empty() {
                    return Poll::Ready(Ok(0));
                }
                let count = opener.open(sealed.filled(), buffer)?;
                if count > 0 {
                    return Poll::Ready(Ok(count));
                }
            }
        })
    }

    /// Puts the connection under TLS; `first` are bytes that were received before.
    ///
    /// # Errors
    /// A readable text, when those bytes are not a valid handshake.
    pub fn upgrade(
        &mut self,
        connection: &Arc<Connection>,
        session: Session,
        first: &[u8],
    ) -> io::Result<()> {
        connection.begin_session(session);
        let opener = self.opener.insert(Opener {
            connection: Arc::clone(connection),
            rest: Vec::new(),
            records: Records::default(),
            ended: false,
        });
        opener.open(first, &mut []).map(drop)
    }

    /// Received bytes of an incomplete TLS record, which cannot be decrypted yet.
    pub fn sealed_bytes(&self) -> usize {
        let opener = self.opener.as_ref();
        opener.map_or(0, |opener| opener.records.begun_bytes())
    }

    /// Whether the peer's first handshake message has arrived as a whole and was answered.
    pub fn has_answered(&self) -> bool {
        let opener = self.opener.as_ref();
        opener.is_some_and(|opener| opener.connection.has_answered())
    }

    /// Whether a TLS handshake is in progress.
    pub fn is_handshaking(&self) -> bool {
        let opener = self.opener.as_ref();
        opener.is_some_and(|opener| opener.connection.is_handshaking())
    }
}

impl Opener {
    fn open(&mut self, sealed: &[u8], buffer: &mut [u8]) -> io::Result<usize> {
        self.records.pass(sealed);
        let opened = self.connection.open(sealed, buffer, &mut self.rest)?;
        self.ended = opened.ended;
        Ok(opened.count)
    }

    fn take_rest(&mut self, buffer: &mut [u8]) -> usize {
        let count = self.rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        if self.rest.is_empty() {
            self.rest = Vec::new();
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_followed_however_they_are_cut() {
        let record =
            |size: u16| [&[23, 3, 3], &size.to_be_bytes()[..], &vec![7; size.into()]].concat();
        let stream = [record(0), record(1), record(5), record(16_000), record(0)].concat();
        for step in [1, 2, 3, 5, 7, 1_000, stream.len()] {
            let mut records = Records::default();
            for (index, piece) in stream.chunks(step).enumerate() {
                records.pass(piece);
                let begun = records.begun_bytes();
                assert!(
                    begun <= ((index + 1) * step).min(16_004),
                    "in steps of {step}"
                );
            }
            assert_eq!(records.begun_bytes(), 0, "in steps of {step}");
            records.pass(&record(100)[..60]);
            assert_eq!(records.begun_bytes(), 60);
        }
    }
}
