//! The fastest possible broker: answers every request with success and stores nothing. Its rate is
//! the most that client and machine can reach.
//!
//! `limit PORT [FILE]`: it is its own NameServer. Each connection has a blocking thread, which does
//! one read and then one write of all answers. With FILE the received bytes are written to the file
//! and flushed before the answer, as with SYNC_FLUSH. The writes go round in a file of zeros, so
//! that a flush writes nothing else. It needs only the standard library: `rustc -O` compiles it in
//! a second.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of one read; a longer request ends its connection.
const READ_BYTES: usize = 1 << 20;
const FILE_BYTES: usize = 64 << 20;
/// Start of the header of a request for a route, in JSON and in the ROCKETMQ form.
const ROUTE_CODE: [&[u8]; 2] = [br#"{"code":105,"#, &[0, 105]];
/// The text before the opaque in a JSON header.
const OPAQUE: &[u8] = br#""opaque":"#;
/// The fields that a client needs in the reply to a send.
const FIELDS: &str = concat!(
    r#""queueId":"0","TRACE_ON":"true","MSG_REGION":"DefaultRegion","queueOffset":"0","#,
    r#""msgId":"7F00000100002A9F0000000000000000""#
);
/// Start of a batch's header. Its reply has an id for each message, as a client reads them all.
const BATCH: &[u8] = br#"{"code":320,"#;
const NEXT_ID: &[u8] = b",7F00000100002A9F0000000000000000";
/// The load generator asks in JSON for the ends of queues, and waits until they have grown by its
/// messages.
const MAX_OFFSET: &[u8] = br#"{"code":30,"#;
const OFFSET: &str = r#"{"code":0,"extFields":{"offset":""#;
const OFFSET_DIGITS: usize = 20;
/// A ROCKETMQ header of success, which only the load generator's sends need, and the place of the
/// opaque.
const BINARY: [u8; 21] = *b"\0\0\x07\x01\x97....\0\0\0\x01\0\0\0\0\0\0\0\0";
const BINARY_OPAQUE: usize = 5;

/// Replies by kind of header, with room for the opaque: one for sends, one with a route.
struct Limit {
    replies: [[Reply; 2]; 2],
    log: Option<Mutex<Log>>,
    /// The reported end of every queue: the bytes received, as no message is shorter than a byte.
    read_bytes: AtomicU64,
}

struct Reply {
    frame: Vec<u8>,
    opaque_at: usize,
}

struct Log {
    file: File,
    at: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().ok_or("PORT [FILE]")?.parse()?;
    let log = arguments.next().map(Log::create).transpose()?;
    let limit: &Limit = Box::leak(Box::new(Limit::new(port, log.map(Mutex::new))));
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    println!("boot success");
    for stream in listener.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        // A client that closes its connection ends only its thread.
        std::thread::spawn(move || limit.serve(stream));
    }
    Ok(())
}

impl Log {
    fn create(path: String) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(&vec![0; FILE_BYTES])?;
        file.sync_all()?;
        Ok(Self { file, at: 0 })
    }

    /// Returns once the bytes are on the disk.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.at + bytes.len() > FILE_BYTES {
            self.at = 0;
        }
        self.file.write_all_at(bytes, self.at as u64)?;
        self.at += bytes.len();
        self.file.sync_data()
    }
}

impl Reply {
    fn new(header: &[u8], opaque_at: usize, is_json: bool, body: &str) -> Self {
        let kind = u32::from(!is_json) << 24;
        let length = 4 + header.len() + body.len();
        let words = [length as u32, header.len() as u32 | kind];
        Self {
            frame: [
                &words.map(u32::to_be_bytes).concat(),
                header,
                body.as_bytes(),
            ]
            .concat(),
            opaque_at: 8 + opaque_at,
        }
    }
}

impl Limit {
    fn new(port: u16, log: Option<Mutex<Log>>) -> Self {
        let language = r#""flag":1,"language":"OTHER""#;
        let begin = format!(
            r#"{OFFSET}{:0OFFSET_DIGITS$}",{FIELDS}}},{language},"version":407,"opaque":"#,
            0
        );
        let json = format!(r#"{begin}{:11},"serializeTypeCurrentRPC":"JSON"}}"#, "");
        let broker = format!(r#""brokerAddrs":{{"0":"127.0.0.1:{port}"}},"brokerName":"limit""#);
        let queues = r#""perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4"#;
        let route = format!(
            r#"{{"brokerDatas":[{{{broker},"cluster":"DefaultCluster"}}],"filterServerTable":{{}},
            "queueDatas":[{{"brokerName":"limit",{queues}}}]}}"#
        );
        let replies = [true, false].map(|is_json| {
            let (header, at) = match is_json {
                true => (json.as_bytes(), begin.len()),
                false => (&BINARY[..], BINARY_OPAQUE),
            };
            ["", &route].map(|body| Reply::new(header, at, is_json, body))
        });
        Self {
            replies,
            log,
            read_bytes: AtomicU64::new(0),
        }
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let (mut input, mut filled, mut out) = (vec![0; READ_BYTES], 0, Vec::new());
        loop {
            let count = stream.read(&mut input[filled..])?;
            if count == 0 {
                return Ok(());
            }
            if let Some(log) = &self.log {
                let mut log = log.lock().map_err(|_| io::Error::other("a write failed"))?;
                log.put(&input[filled..filled + count])?;
            }
            self.read_bytes.fetch_add(count as u64, Ordering::Relaxed);
            filled += count;
            let mut rest = &input[..filled];
            while let Some((length, next)) = rest.split_first_chunk() {
                let length = u32::from_be_bytes(*length) as usize;
                let Some((frame, next)) = next.split_at_checked(length) else {
                    break;
                };
                self.answer(frame, &mut out)
                    .ok_or(io::ErrorKind::InvalidData)?;
                rest = next;
            }
            let left = rest.len();
            input.copy_within(filled - left..filled, 0);
            filled = left;
            stream.write_all(&out)?;
            out.clear();
        }
    }

    /// Appends the reply to a request, which is passed without its length word; None if it is not a
    /// request.
    fn answer(&self, frame: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let (&[kind, a, b, c], rest) = frame.split_first_chunk()?;
        let header = rest.get(..u32::from_be_bytes([0, a, b, c]) as usize)?;
        let is_route = header.starts_with(ROUTE_CODE.get(usize::from(kind))?);
        let opaque = match kind {
            0 => {
                let at = header
                    .windows(OPAQUE.len())
                    .rposition(|part| part == OPAQUE)?;
                header[at + OPAQUE.len()..]
                    .split(|byte| *byte == b',')
                    .next()?
            }
            _ => header.get(BINARY_OPAQUE..BINARY_OPAQUE + 4)?,
        };
        let reply = &self.replies[usize::from(kind)][usize::from(is_route)];
        let begin = out.len();
        out.extend_from_slice(&reply.frame);
        let mut patch = |at: usize, bytes: &[u8]| {
            out.get_mut(begin + at..begin + at + bytes.len())
                .map(|room| room.copy_from_slice(bytes))
        };
        patch(reply.opaque_at, opaque)?;
        if header.starts_with(MAX_OFFSET) {
            let bytes = self.read_bytes.load(Ordering::Relaxed);
            patch(
                8 + OFFSET.len(),
                format!("{bytes:0OFFSET_DIGITS$}").as_bytes(),
            )?;
        }
        if header.starts_with(BATCH) {
            let more = messages(&rest[header.len()..])?.saturating_sub(1);
            add_ids(out, begin, more)?;
        }
        Some(())
    }
}

/// Number of messages in the body of a batch; each begins with its length.
fn messages(mut body: &[u8]) -> Option<usize> {
    let mut count = 0;
    while let Some(length) = body.first_chunk() {
        body = body.get(u32::from_be_bytes(*length).max(4) as usize..)?;
        count += 1;
    }
    Some(count)
}

/// Adds `more` ids after the id in the reply that begins there.
fn add_ids(out: &mut Vec<u8>, begin: usize, more: usize) -> Option<()> {
    let ids = NEXT_ID.repeat(more);
    for word in [begin, begin + 4] {
        let bytes = out.get_mut(word..)?.first_chunk_mut()?;
        *bytes = (u32::from_be_bytes(*bytes) + ids.len() as u32).to_be_bytes();
    }
    let at = begin + 8 + OFFSET.len() + OFFSET_DIGITS + r#"","#.len() + FIELDS.len() - 1;
    out.splice(at..at, ids);
    Some(())
}
