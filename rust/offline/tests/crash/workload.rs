//! Runs recorded work on a store, and collects its promises.

use std::path::Path;
use std::sync::Arc;

use mq_format::message::sys_flag;
use mq_store::{PutResult, PutStatus, Store};

use crate::oracle::{Oracle, STATE, Saved, Sent};
use crate::random::Random;
use crate::rig::{Message, QUEUES, Rig, TOPICS, put, put_batch};
use crate::tape::{Recorder, Recording};

/// The work of one thread on an open store.
pub struct Worker<'a> {
    pub name: String,
    pub store: &'a Store,
    pub tape: &'a Recorder,
    pub random: Random,
    pub sync_flush: bool,
    pub oracle: Oracle,
}

impl Worker<'_> {
    /// Runs `steps` random operations, most of them puts.
    pub fn run(&mut self, steps: usize) {
        for step in 0..steps {
            match self.random.below(20) {
                0 => self.batch(step),
                1 => self.half(step),
                2 => self.store.flush().unwrap(),
                3 => self.flush_and_promise(),
                _ => self.single(step),
            }
        }
    }

    fn message(&mut self, step: usize) -> Message {
        let topic = TOPICS[self.random.below(TOPICS.len())];
        let queue_id = self.random.below(QUEUES as usize) as i32;
        let key = format!("{}-{step}", self.name);
        let size = match self.random.below(16) {
            0 => 0,
            // Larger than a page.
            1 => 4_200,
            _ => 20 + self.random.below(500),
        };
        let size = size.min(self.size_max());
        Message::new(&key, topic, queue_id, self.random.bytes(size))
    }

    fn size_max(&self) -> usize {
        6_000
    }

    fn single(&mut self, step: usize) {
        let message = self.message(step);
        let begun = self.tape.position();
        let result = put(self.store, &message);
        self.note(&[message], &result, begun);
    }

    fn batch(&mut self, step: usize) {
        let first = self.message(step);
        let one = |number: usize| Message {
            key: format!("{}.{number}", first.key),
            ..first.clone()
        };
        let messages: Vec<_> = (0..1 + 4_000 / (first.body.len() + 200))
            .take(4)
            .map(one)
            .collect();
        let begun = self.tape.position();
        let result = put_batch(self.store, &messages);
        self.note(&messages, &result, begun);
    }

    /// Puts a half message, which is in no queue.
    fn half(&mut self, step: usize) {
        let mut message = self.message(step);
        message.sys_flag = sys_flag::PREPARED;
        let begun = self.tape.position();
        let result = put(self.store, &message);
        self.note(&[message], &result, begun);
    }

    fn note(&mut self, messages: &[Message], result: &PutResult, begun: usize) {
        assert_eq!(result.status, PutStatus::Ok);
        let promised = self.sync_flush.then(|| self.tape.position());
        for (number, message) in messages.iter().enumerate() {
            let sent = Sent {
                message: message.clone(),
                queue_offset: Some(result.queue_offset + number as i64),
                begun,
                promised,
            };
            self.oracle.sent.insert(message.key.clone(), sent);
        }
    }

    /// Flushes, marks everything put so far as promised, and saves a state file.
    fn flush_and_promise(&mut self) {
        self.store.flush().unwrap();
        self.oracle.promise_all(self.tape.position());
        let begun = self.tape.position();
        let counter = self.random.next() >> 1;
        let version = format!("{{\"counter\":{counter},\"timestamp\":1}}");
        let content = format!("{{\"dataVersion\":{version},\"topicConfigTable\":{{}}}}");
        let content = content.into_bytes();
        if self.name.starts_with("0") {
            self.store.save_state(STATE, &content).unwrap();
            self.oracle.saved.push(Saved {
                content,
                begun,
                promised: self.tape.position(),
            });
        }
    }
}

/// Records `plan.rounds` rounds of open, work and close in an empty directory.
pub fn record(rig: &Rig, root: &Path, seed: u64, plan: &Plan) -> (Recording, Oracle) {
    let (tape, watch) = Recorder::start(root);
    let mut oracle = Oracle::default();
    for round in 0..plan.rounds {
        let store = rig.open(root);
        oracle.merge(work(rig, &store, &tape, seed + round as u64, plan, round));
        let is_last = round + 1 == plan.rounds;
        if !is_last || plan.closes {
            store.close().unwrap();
            oracle.promise_all(tape.position());
        } else {
            // The power fails while the store is running. Later writes of its drop do not count.
            let recording = tape.recording();
            drop(watch);
            return (recording, oracle);
        }
    }
    drop(watch);
    (tape.recording(), oracle)
}

/// The amount of work before the power loss.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub threads: usize,
    pub steps: usize,
    pub rounds: usize,
    pub closes: bool,
}

fn work(
    rig: &Rig,
    store: &Arc<Store>,
    tape: &Arc<Recorder>,
    seed: u64,
    plan: &Plan,
    round: usize,
) -> Oracle {
    let mut oracle = Oracle::default();
    let worker = |thread: usize| Worker {
        name: format!("{thread}-{round}"),
        store,
        tape,
        random: Random::new(seed * 1_000 + thread as u64),
        sync_flush: rig.sync_flush,
        oracle: Oracle::default(),
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads)
            .map(|thread| {
                let mut worker = worker(thread);
                scope.spawn(move || {
                    worker.run(plan.steps);
                    worker.oracle
                })
            })
            .collect();
        for thread in threads {
            oracle.merge(thread.join().unwrap());
        }
    });
    oracle
}
