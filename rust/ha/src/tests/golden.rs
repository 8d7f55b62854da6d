//! Both sides against the recorded bytes of a Java master and a Java slave, 4.9.7.

use serde_json::Value;

use crate::protocol::{
    Fault, HEADER_BYTES, LogRange, MasterSide, MasterTiming, SlaveLog, SlaveSide, SlaveStart,
    SlaveTiming, Step,
};
use mq_testing::golden::list_of;

const FILE: u64 = 1 << 30;
/// The sessions, and the end that the slave had when it joined.
const SESSIONS: [(&str, u64); 2] = [("ha", 0), ("ha-sync", 2_444)];

struct Line {
    is_of_master: bool,
    bytes: Vec<u8>,
    at_ms: i64,
}

fn session(name: &str) -> Vec<Line> {
    let lines = list_of("wire", name);
    let is_of_ha = |line: &Value| line["server"] == "ha";
    let line = |line: Value| {
        let hex = line["raw_hex"].as_str().unwrap();
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        Line {
            is_of_master: line["from"] == "server",
            bytes: (0..hex.len()).step_by(2).map(byte).collect(),
            at_ms: line["t_ms"].as_i64().unwrap(),
        }
    };
    lines.into_iter().filter(is_of_ha).map(line).collect()
}

/// The log that a session copies.
struct Copied {
    start: u64,
    bytes: Vec<u8>,
}

impl SlaveLog for Copied {
    fn compare(&mut self, _: u64, _: &[u8]) -> Result<Option<u64>, String> {
        Err("there is no overlap".into())
    }

    fn append(&mut self, offset: u64, bytes: &[u8], _: Option<i64>) -> Result<(), String> {
        assert_eq!(offset, self.start + self.bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn skip_to(&mut self, _: u64) -> Result<(), String> {
        Err("nothing is missing".into())
    }
}

#[test]
fn our_slave_takes_what_a_java_master_sent() {
    for (name, end) in SESSIONS {
        let mut log = Copied {
            start: end,
            bytes: Vec::new(),
        };
        let start = SlaveStart {
            start: end,
            end,
            file_bytes: FILE,
            first_offset: None,
            master_start: Some(0),
            last_stored_ms: None,
        };
        let mut side = SlaveSide::new(SlaveTiming::default(), start, 0);
        let mut reports = vec![side.report(end, 0).unwrap().to_vec()];
        let lines = session(name);
        let (of_master, of_slave): (Vec<_>, Vec<_>) =
            lines.iter().partition(|line| line.is_of_master);
        for line in &of_master {
            side.receive(&line.bytes, line.at_ms, &mut log).unwrap();
            let end = log.start + log.bytes.len() as u64;
            // The heartbeats of the recording depend on its times.
            reports.extend(side.report(end, 0).map(Vec::from));
        }
        let mut javas: Vec<_> = of_slave.iter().map(|line| line.bytes.clone()).collect();
        javas.dedup();
        // The slave of "ha-sync" was stopped when it had the last message, before its report.
        let count = javas.len().min(reports.len());
        assert_eq!(reports[..count], javas[..count], "{name}");
        assert_eq!(side.master_end(), log.start + log.bytes.len() as u64);
        assert!(log.bytes.len() > 500);
    }
}

#[test]
fn our_master_sends_what_a_java_master_sent() {
    for (name, _) in SESSIONS {
        let lines = session(name);
        let began_ms = lines[0].at_ms;
        let mut side = MasterSide::new(MasterTiming::default(), began_ms);
        for line in &lines {
            // As much as the Java master had written when it sent the frame.
            let (offset, length) = line.bytes.split_at(8);
            let offset = u64::from_be_bytes(offset.try_into().unwrap());
            let mut range = LogRange {
                start: 0,
                end: offset,
                file_bytes: FILE,
            };
            if !line.is_of_master {
                side.receive(&line.bytes, range, line.at_ms).unwrap();
                continue;
            }
            let body = line.bytes.len() - HEADER_BYTES;
            assert_eq!(length[..4], (body as u32).to_be_bytes());
            range.end += body as u64;
            let sent = match side.step(range, line.at_ms).unwrap() {
                Step::Heartbeat(_) => side.send(0, line.at_ms),
                Step::Data { bytes, .. } => side.send(bytes, line.at_ms),
                // Java's clock ran a little ahead of the recording.
                Step::Wait(ms) if ms < 200 => side.send(0, line.at_ms),
                Step::Wait(ms) => panic!("{name} at {}: {ms} ms", line.at_ms),
            };
            assert_eq!(sent, line.bytes[..HEADER_BYTES], "{name} at {}", line.at_ms);
        }
    }
}

#[test]
fn bytes_of_another_protocol_are_refused() {
    let range = LogRange {
        start: 0,
        end: 1 << 20,
        file_bytes: FILE,
    };
    for bytes in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
    ] {
        let mut side = MasterSide::new(MasterTiming::default(), 0);
        let fault = side.receive(bytes, range, 0).unwrap_err();
        assert!(matches!(fault, Fault::Ahead { .. } | Fault::Tls), "{fault}");
    }
}
