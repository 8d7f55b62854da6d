//! A blocking connection of one worker.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::BenchError;
use crate::format::remoting::{FieldValue, Frame, Head, MAX_FRAME_BYTES, Serialize};
use crate::net::frame::FrameSplitter;

/// A socket, and what was received from it and not read yet.
pub(super) struct Exchange {
    pub address: String,
    stream: TcpStream,
    splitter: FrameSplitter,
}

impl Exchange {
    pub fn connect(address: &str, timeout: Duration) -> Result<Self, BenchError> {
        let open = || {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(timeout))?;
            stream.set_write_timeout(Some(timeout))?;
            Ok(stream)
        };
        let address = address.to_owned();
        match open() {
            Ok(stream) => Ok(Self {
                address,
                stream,
                splitter: FrameSplitter::new(MAX_FRAME_BYTES),
            }),
            Err(cause) => Err(BenchError::Io { address, cause }),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        self.stream
            .write_all(bytes)
            .map_err(|cause| self.io_error(cause))
    }

    /// Waits for bytes. Frames are then taken with `next_frame`.
    pub fn receive(&mut self) -> Result<(), BenchError> {
        match self.stream.read(self.splitter.spare()) {
            Ok(0) => Err(self.io_error(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                self.splitter.filled(count);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(self.io_error(io::ErrorKind::TimedOut.into()))
            }
            Err(error) => Err(self.io_error(error)),
        }
    }

    /// The next whole frame that is here already; a server's own requests come out too.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, BenchError> {
        let frame = self
            .splitter
            .next_frame()
            .and_then(|frame| frame.map(Frame::decode).transpose());
        frame.map_err(|error| BenchError::Wire {
            address: self.address.clone(),
            cause: error.to_string(),
        })
    }

    /// Sends one request and waits for its reply's code, remark, fields and body.
    pub fn call(
        &mut self,
        code: i32,
        fields: &[(&str, FieldValue<'_>)],
    ) -> Result<Answer, BenchError> {
        let mut request = Vec::new();
        Head::request(code, 1, Serialize::Json).encode(fields, b"", &mut request);
        self.send(&request)?;
        loop {
            self.receive()?;
            while let Some(frame) = self.next_frame()? {
                if frame.is_response() {
                    return Ok(Answer::of(&frame));
                }
            }
        }
    }

    fn io_error(&self, cause: io::Error) -> BenchError {
        BenchError::Io {
            address: self.address.clone(),
            cause,
        }
    }
}

/// An owned reply.
pub(super) struct Answer {
    pub code: i32,
    pub remark: String,
    pub body: Vec<u8>,
    offset: Option<i64>,
}

impl Answer {
    fn of(frame: &Frame<'_>) -> Self {
        Self {
            code: frame.code,
            remark: frame.remark.as_deref().unwrap_or_default().to_owned(),
            body: frame.body.to_vec(),
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
