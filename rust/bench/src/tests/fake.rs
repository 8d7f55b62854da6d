//! The stand-in broker: it keeps messages in memory and has faults that a test chooses.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use mq_format::remoting::Frame;

/// Time for which a pull is held.
const HOLD: Duration = Duration::from_millis(5);
/// Number of queues of the topic that exists at the start.
pub const QUEUES: i32 = 2;

/// The faults of the broker.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// The code of every answer to a send.
    pub send_code: i32,
    /// The send of this number and all later sends are answered after the pause.
    pub pause: Option<(u64, Duration)>,
    /// One send of this many is acknowledged and not stored; 0 for none.
    pub lose_every: u64,
    /// Sends are stored and never answered.
    pub is_silent: bool,
    /// The first creation of the topic of this number succeeds, but routes do not show it.
    pub forget_topic: u64,
    /// A connection closes at its heartbeat of this number.
    pub drop_at_heartbeat: u64,
    /// After this number of sends every connection closes without a reply.
    pub leave_after_sends: u64,
}

#[derive(Default)]
struct State {
    sends: u64,
    heartbeats: u64,
    creations: u64,
    /// Number of queues of each topic.
    topics: BTreeMap<String, i32>,
    /// Records by topic and queue.
    queues: BTreeMap<(String, i32), Vec<Vec<u8>>>,
    committed: BTreeMap<(String, String, i32), i64>,
}

/// A running broker.
pub struct Fake {
    pub address: String,
    shared: Arc<Shared>,
}

struct Shared {
    address: String,
    faults: Faults,
    state: Mutex<State>,
    arrived: Condvar,
}

impl Fake {
    /// Starts a broker with the topic "T".
    pub fn start(faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut state = State::default();
        state.topics.insert("T".to_owned(), QUEUES);
        let shared = Arc::new(Shared {
            address: address.clone(),
            faults,
            state: Mutex::new(state),
            arrived: Condvar::new(),
        });
        let serving = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = serving.clone();
                std::thread::spawn(move || shared.serve(stream.unwrap()));
            }
        });
        Self { address, shared }
    }

    /// Puts messages into a queue.
    pub fn fill(&self, topic: &str, queue: i32, messages: i64) {
        (0..messages).for_each(|_| self.shared.store(topic, queue, b"12345"));
    }

    /// Removes one message of a queue; the others keep their offsets.
    pub fn lose(&self, topic: &str, queue: i32, number: usize) {
        let mut state = self.shared.state.lock().unwrap();
        state.queues.get_mut(&(topic.to_owned(), queue)).unwrap()[number].clear();
    }

    /// Flips a bit in the body of one message of a queue.
    pub fn damage(&self, topic: &str, queue: i32, number: usize) {
        let mut state = self.shared.state.lock().unwrap();
        let records = state.queues.get_mut(&(topic.to_owned(), queue)).unwrap();
        records[number][88] ^= 1;
    }

    /// Number of stored messages by topic and queue.
    pub fn stored(&self) -> BTreeMap<(String, i32), usize> {
        let state = self.shared.state.lock().unwrap();
        let queues = state.queues.iter();
        queues
            .map(|(at, records)| (at.clone(), records.len()))
            .collect()
    }

    /// Committed offsets by group, topic and queue.
    pub fn committed(&self) -> BTreeMap<(String, String, i32), i64> {
        self.shared.state.lock().unwrap().committed.clone()
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) {
        let mut word = [0; 4];
        while stream.read_exact(&mut word).is_ok() {
            let mut bytes = vec![0; u32::from_be_bytes(word) as usize];
            stream.read_exact(&mut bytes).unwrap();
            let bytes = [word.to_vec(), bytes].concat();
            let frame = Frame::decode(&bytes).unwrap();
            let Some(reply) = self.answer(&frame) else {
                return;
            };
            if !frame.is_oneway() && stream.write_all(&reply).is_err() {
                return;
            }
        }
    }

    /// None closes the connection; an empty reply sends nothing.
    fn answer(&self, frame: &Frame<'_>) -> Option<Vec<u8>> {
        let sends = self.faults.leave_after_sends;
        if sends > 0 && self.state.lock().unwrap().sends >= sends {
            return None;
        }
        let mut reply = Vec::new();
        let ok = frame.reply(0, None);
        let text = |name| frame.ext.get(name).unwrap_or_default().to_owned();
        let number = |name| text(name).parse::<i64>().unwrap();
        match frame.code {
            105 => self.route(frame, &mut reply),
            17 => {
                let queues = number("readQueueNums") as i32;
                let mut state = self.state.lock().unwrap();
                state.creations += 1;
                if state.creations != self.faults.forget_topic {
                    state.topics.insert(text("topic"), queues);
                }
                ok.encode(&[], b"", &mut reply);
            }
            310 | 320 => self.send(frame, &mut reply),
            30 => {
                let end = self.end(&text("topic"), number("queueId") as i32);
                ok.encode(&[("offset", end.into())], b"", &mut reply);
            }
            31 => ok.encode(&[("offset", 0.into())], b"", &mut reply),
            11 => self.pull(frame, &mut reply),
            15 => {
                let at = (
                    text("consumerGroup"),
                    text("topic"),
                    number("queueId") as i32,
                );
                let mut state = self.state.lock().unwrap();
                state.committed.insert(at, number("commitOffset"));
                ok.encode(&[], b"", &mut reply);
            }
            34 => {
                let mut state = self.state.lock().unwrap();
                state.heartbeats += 1;
                if state.heartbeats == self.faults.drop_at_heartbeat {
                    return None;
                }
                ok.encode(&[], b"", &mut reply);
            }
            other => panic!("request code {other}"),
        }
        Some(reply)
    }

    fn route(&self, frame: &Frame<'_>, reply: &mut Vec<u8>) {
        let topic = frame.ext.get("topic").unwrap();
        let queues = match topic {
            "TBW102" => Some(8),
            topic => self.state.lock().unwrap().topics.get(topic).copied(),
        };
        let Some(queues) = queues else {
            frame
                .reply(17, Some("No topic route info"))
                .encode(&[], b"", reply);
            return;
        };
        let own = &self.address;
        let broker = format!(r#"{{"brokerAddrs":{{0:"{own}"}},"brokerName":"b"}}"#);
        let counts = format!(r#""readQueueNums":{queues},"writeQueueNums":{queues}"#);
        let queue = format!(r#"{{"brokerName":"b","perm":6,{counts}}}"#);
        let body = format!(r#"{{"brokerDatas":[{broker}],"queueDatas":[{queue}]}}"#);
        frame.reply(0, None).encode(&[], body.as_bytes(), reply);
    }

    fn send(&self, frame: &Frame<'_>, reply: &mut Vec<u8>) {
        let number = {
            let mut state = self.state.lock().unwrap();
            state.sends += 1;
            state.sends
        };
        if let Some((_, pause)) = self.faults.pause.filter(|(at, _)| *at == number) {
            std::thread::sleep(pause); // the fault itself
        }
        let is_lost = self.faults.lose_every > 0 && number % self.faults.lose_every == 0;
        let (topic, queue) = (frame.ext.get("b").unwrap(), frame.ext.get("e").unwrap());
        let bodies = match frame.code {
            320 => batch(frame.body),
            _ => vec![frame.body],
        };
        if !is_lost && [0, 10].contains(&self.faults.send_code) {
            for body in bodies {
                self.store(topic, queue.parse().unwrap(), body);
            }
        }
        if !self.faults.is_silent {
            frame
                .reply(self.faults.send_code, Some("busy"))
                .encode(&[], b"", reply);
        }
    }

    fn store(&self, topic: &str, queue: i32, body: &[u8]) {
        let mut state = self.state.lock().unwrap();
        let records = state.queues.entry((topic.to_owned(), queue)).or_default();
        records.push(record(topic, records.len() as i64, body));
        self.arrived.notify_all();
    }

    fn end(&self, topic: &str, queue: i32) -> i64 {
        let state = self.state.lock().unwrap();
        let records = state.queues.get(&(topic.to_owned(), queue));
        records.map_or(0, |records| records.len() as i64)
    }

    fn pull(&self, frame: &Frame<'_>, reply: &mut Vec<u8>) {
        let text = |name| frame.ext.get(name).unwrap();
        let at = (text("topic").to_owned(), text("queueId").parse().unwrap());
        let position: usize = text("queueOffset").parse().unwrap();
        let suspend = text("sysFlag").parse::<i32>().unwrap() & 2 != 0;
        let mut state = self.state.lock().unwrap();
        let end = |state: &State| state.queues.get(&at).map_or(0, Vec::len);
        if suspend && end(&state) <= position {
            let held = self.arrived.wait_timeout(state, HOLD);
            state = held.unwrap_or_else(PoisonError::into_inner).0;
        }
        let until = end(&state).min(position + 32);
        let code = if position < until { 0 } else { 19 };
        let next = [("nextBeginOffset", (until.max(position) as i64).into())];
        let body = match state.queues.get(&at) {
            Some(records) if code == 0 => records[position..until].concat(),
            _ => Vec::new(),
        };
        frame.reply(code, None).encode(&next, &body, reply);
    }
}

/// The bodies of a batch.
fn batch(mut body: &[u8]) -> Vec<&[u8]> {
    let mut bodies = Vec::new();
    while let Some(total) = body.first_chunk::<4>() {
        let (one, rest) = body.split_at(u32::from_be_bytes(*total) as usize);
        let length = u32::from_be_bytes(one[16..20].try_into().unwrap()) as usize;
        bodies.push(&one[20..20 + length]);
        body = rest;
    }
    bodies
}

/// A stored message without properties.
fn record(topic: &str, queue_offset: i64, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 88];
    out[4..8].copy_from_slice(&0xDAA3_20A7_u32.to_be_bytes());
    out[8..12].copy_from_slice(&mq_format::message::body_crc(body).to_be_bytes());
    out[20..28].copy_from_slice(&queue_offset.to_be_bytes());
    out[84..88].copy_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
    out.push(topic.len() as u8);
    out.extend_from_slice(topic.as_bytes());
    out.extend_from_slice(&[0, 0]);
    let total = out.len() as u32;
    out[..4].copy_from_slice(&total.to_be_bytes());
    out
}
