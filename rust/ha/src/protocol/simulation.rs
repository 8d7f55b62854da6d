//! A master, its slaves and the network between them, from a seed. A failing seed is printed, and
//! `MQSTACK_SEED` runs it alone; `MQSTACK_SIMULATION_SECONDS` limits the time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{
    LogRange, MasterSide, MasterTiming, SlaveLog, SlaveSide, SlaveStart, SlaveTiming, Step,
};
use mq_format::message::{self, BLANK_BYTES};

const FILE: u64 = 4_096;
const SLAVES: usize = 3;

/// A log in memory.
#[derive(Debug, Clone)]
pub(super) struct MemoryLog {
    file_bytes: u64,
    start: u64,
    bytes: Vec<u8>,
    /// Ends of its records.
    ends: Vec<u64>,
}

impl MemoryLog {
    pub(super) fn new(file_bytes: u64, start: u64) -> Self {
        Self {
            file_bytes,
            start,
            bytes: Vec::new(),
            ends: Vec::new(),
        }
    }

    pub(super) fn end(&self) -> u64 {
        match self.bytes.is_empty() {
            true => 0,
            false => self.start + self.bytes.len() as u64,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn range(&self) -> LogRange {
        LogRange {
            start: self.start,
            end: self.start + self.bytes.len() as u64,
            file_bytes: self.file_bytes,
        }
    }

    fn read(&self, offset: u64, count: usize) -> &[u8] {
        &self.bytes[(offset - self.start) as usize..][..count]
    }

    /// Loses what follows a record.
    fn cut(&mut self, records: usize) {
        self.ends.truncate(records);
        let end = self.ends.last().copied().unwrap_or(self.start);
        self.bytes.truncate((end - self.start) as usize);
    }
}

impl SlaveLog for MemoryLog {
    fn compare(&mut self, offset: u64, bytes: &[u8]) -> Result<Option<u64>, String> {
        let own = self.read(offset, bytes.len());
        let differs = own.iter().zip(bytes).position(|(own, other)| own != other);
        Ok(differs.map(|at| offset + at as u64))
    }

    fn append(&mut self, offset: u64, bytes: &[u8], _: Option<i64>) -> Result<(), String> {
        if self.bytes.is_empty() {
            assert!(offset.is_multiple_of(self.file_bytes));
            self.start = offset;
        }
        assert_eq!(offset, self.start + self.bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self.ends.push(offset + bytes.len() as u64);
        Ok(())
    }

    fn skip_to(&mut self, offset: u64) -> Result<(), String> {
        self.bytes.resize((offset - self.start) as usize, 0);
        Ok(())
    }
}

/// A record as far as replication looks at it.
pub(crate) fn record(offset: u64, bytes: usize, store_timestamp_ms: i64) -> Vec<u8> {
    let mut record = vec![b'r'; bytes];
    record[..4].copy_from_slice(&(bytes as u32).to_be_bytes());
    record[4..8].copy_from_slice(&message::MAGIC.to_be_bytes());
    record[28..36].copy_from_slice(&offset.to_be_bytes());
    record[36..40].copy_from_slice(&[0; 4]);
    record[56..64].copy_from_slice(&store_timestamp_ms.to_be_bytes());
    record
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// A connection: bytes in both directions arrive in pieces, and not at once.
struct Link {
    master: MasterSide,
    slave: SlaveSide,
    to_slave: VecDeque<u8>,
    to_master: VecDeque<u8>,
}

struct World {
    random: Random,
    now_ms: i64,
    master: MemoryLog,
    slaves: Vec<(MemoryLog, Option<Link>)>,
    appends: i64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let start = random.below(3) * FILE;
        let slaves = (0..SLAVES).map(|_| (MemoryLog::new(FILE, 0), None));
        Self {
            now_ms: 0,
            master: MemoryLog::new(FILE, start),
            slaves: slaves.collect(),
            appends: 0,
            random,
        }
    }

    fn put(&mut self) {
        let bytes = 100 + self.random.below(600);
        let end = self.master.range().end;
        let room = FILE - end % FILE;
        self.appends += 1;
        if bytes + BLANK_BYTES as u64 > room {
            let mut blank = message::blank(room as u32).to_vec();
            // RocketMQ leaves whatever the file had behind the blank record's head.
            blank.resize(room as usize, self.random.next() as u8);
            self.master.append(end, &blank, None).unwrap();
        } else {
            let mut record = record(end, bytes as usize, self.appends);
            record[80] = self.random.next() as u8;
            self.master
                .append(end, &record, Some(self.appends))
                .unwrap();
        }
    }

    fn connect(&mut self, index: usize) {
        let (log, link) = &mut self.slaves[index];
        let start = SlaveStart {
            start: log.start,
            end: log.end(),
            file_bytes: FILE,
            first_offset: self.random.one_in(2).then_some(self.master.start),
            master_start: Some(self.master.start),
            last_stored_ms: None,
        };
        *link = Some(Link {
            master: MasterSide::new(MasterTiming::default(), self.now_ms),
            slave: SlaveSide::new(SlaveTiming::default(), start, self.now_ms),
            to_slave: VecDeque::new(),
            to_master: VecDeque::new(),
        });
    }

    /// Moves bytes of the connection on, and lets both sides act.
    fn turn(&mut self, index: usize) {
        let range = self.master.range();
        let (log, Some(link)) = &mut self.slaves[index] else {
            return;
        };
        let piece = self.random.below(900) as usize;
        let bytes: Vec<u8> = drain(&mut link.to_master, piece);
        link.master.receive(&bytes, range, self.now_ms).unwrap();
        if let Some(acked) = link.master.acked().filter(|_| log.end() > 0) {
            assert!(acked <= log.end(), "acknowledged more than it has");
        }
        for _ in 0..self.random.below(3) {
            match link.master.step(range, self.now_ms).unwrap() {
                Step::Data { offset, bytes } => {
                    link.to_slave.extend(link.master.send(bytes, self.now_ms));
                    link.to_slave.extend(self.master.read(offset, bytes));
                }
                Step::Heartbeat(_) => {
                    link.to_slave.extend(link.master.send(0, self.now_ms));
                }
                Step::Wait(at_most_ms) => assert!(at_most_ms > 0),
            }
        }
        let piece = self.random.below(3_000) as usize;
        let bytes: Vec<u8> = drain(&mut link.to_slave, piece);
        link.slave.receive(&bytes, self.now_ms, log).unwrap();
        if let Some(report) = link.slave.report(log.end(), self.now_ms) {
            link.to_master.extend(report);
        }
    }

    fn fail_sometimes(&mut self, index: usize) {
        if self.random.one_in(60) {
            self.slaves[index].1 = None; // cut: what is under way is lost
        }
        if self.random.one_in(200) {
            let (log, link) = &mut self.slaves[index];
            *link = None; // a power loss: the log's end is lost too
            let lost = self.random.below(4) as usize;
            log.cut(log.ends.len().saturating_sub(lost));
        }
    }

    fn check(&self) {
        for (log, _) in &self.slaves {
            if !log.bytes.is_empty() {
                assert_eq!(log.bytes, self.master.read(log.start, log.bytes.len()));
            }
        }
    }

    fn run(&mut self) {
        for round in 0..400 {
            self.now_ms += self.random.below(40) as i64;
            if round < 200 && self.random.one_in(2) {
                self.put();
            }
            for index in 0..SLAVES {
                if self.slaves[index].1.is_none() && (round > 200 || self.random.one_in(10)) {
                    self.connect(index);
                }
                self.turn(index);
                if round < 200 {
                    self.fail_sometimes(index);
                }
            }
            self.check();
        }
        // Without faults every slave ends where the master does.
        for index in 0..SLAVES {
            let end = self.master.end();
            for _ in 0..100_000 {
                if self.slaves[index].0.end() == end {
                    break;
                }
                self.now_ms += 1;
                self.turn(index);
            }
            assert_eq!(self.slaves[index].0.end(), end, "slave {index}");
        }
        self.check();
    }
}

fn drain(queue: &mut VecDeque<u8>, at_most: usize) -> Vec<u8> {
    let count = at_most.min(queue.len());
    queue.drain(..count).collect()
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_slave_becomes_the_masters_copy_whatever_fails() {
    let seconds = variable("MQSTACK_SIMULATION_SECONDS").unwrap_or(1);
    let (seeds, until) = match variable("MQSTACK_SEED") {
        Some(seed) => (seed..seed + 1, Duration::MAX),
        None => (0..u64::MAX, Duration::from_secs(seconds)),
    };
    let began = Instant::now();
    for seed in seeds.take_while(|_| began.elapsed() < until) {
        let run = std::panic::catch_unwind(|| World::new(seed).run());
        assert!(run.is_ok(), "run it again with MQSTACK_SEED={seed}");
    }
}
