//! `kill -9` of a writing process: every acknowledged message exists, once and in its place. The
//! page cache survives the process, so this holds for both flush modes.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mq_store::PutStatus;
use mq_testing::stores::directory;

use crate::oracle::close;
use crate::random::Random;
use crate::rig::{Message, QUEUES, Rig, TOPICS, drain, put};

const ROOT: &str = "MQSTACK_CRASH_ROOT";
const ROUND: &str = "MQSTACK_CRASH_ROUND";
const SYNC: &str = "MQSTACK_CRASH_SYNC";
const THREADS: usize = 4;
const ROUNDS: usize = 10;

fn rig(sync_flush: bool) -> Rig {
    Rig::new(sync_flush, 16 << 10)
}

/// The victim writes forever, with one thread per queue, and prints each acknowledged body.
#[test]
#[ignore = "run as a child process by the tests below"]
fn victim() {
    let variable = |name| std::env::var(name).expect("set by the parent");
    let store = rig(variable(SYNC) == "true").open(&PathBuf::from(variable(ROOT)));
    let round = variable(ROUND);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, round) = (&store, &round);
            scope.spawn(move || {
                for count in 0.. {
                    let key = format!("{round}-{thread}-{count}");
                    let (topic, queue_id) = (TOPICS[thread % 2], (thread / 2) as i32);
                    let body = key.repeat(1 + count % 40).into_bytes();
                    let message = Message::new(&key, topic, queue_id, body);
                    assert_eq!(put(store, &message).status, PutStatus::Ok);
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "acknowledged {key}").unwrap();
                    out.flush().unwrap();
                }
            });
        }
    });
}

fn kill_again_and_again(sync_flush: bool) {
    let root = directory();
    let mut random = Random::new(u64::from(sync_flush));
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        // With a small count the victim dies while it opens the store.
        let count = random.below(400);
        acknowledged.extend(kill_after(root.path(), round, sync_flush, count));
    }
    let store = rig(sync_flush).open(root.path());
    let mut seen: HashMap<String, usize> = HashMap::new();
    for topic in TOPICS {
        for queue_id in 0..QUEUES {
            let found = drain(&store, topic, queue_id).unwrap();
            let offsets: Vec<_> = found.iter().map(|stored| stored.queue_offset).collect();
            let expected: Vec<_> = (0..found.len() as i64).collect();
            assert_eq!(offsets, expected, "{topic}/{queue_id} has holes");
            for stored in found {
                let body = String::from_utf8(stored.body).unwrap();
                assert!(body.starts_with(&stored.key), "{} has {body}", stored.key);
                *seen.entry(stored.key).or_default() += 1;
            }
        }
    }
    assert!(seen.values().all(|count| *count == 1));
    let lost: Vec<_> = acknowledged
        .iter()
        .filter(|key| !seen.contains_key(*key))
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
    let unacknowledged = seen.len() - acknowledged.len();
    assert!(
        unacknowledged <= ROUNDS * THREADS,
        "{unacknowledged} were never acknowledged"
    );
    close(store).unwrap();
}

/// Starts the victim, kills it after `count` lines, and returns all printed bodies.
fn kill_after(root: &Path, round: usize, sync_flush: bool, count: usize) -> Vec<String> {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::victim", "--ignored", "--nocapture"])
        .env(ROOT, root)
        .env(ROUND, round.to_string())
        .env(SYNC, sync_flush.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let said = |line: &String| Some(line.split_once("acknowledged ")?.1.to_owned());
    let mut found = Vec::new();
    while found.len() < count {
        let line = lines.next().expect("the victim ended by itself").unwrap();
        found.extend(said(&line));
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    // Bodies still in the pipe were acknowledged, too. The last line may be incomplete.
    let mut rest: Vec<_> = lines.map_while(Result::ok).collect();
    rest.pop();
    found.extend(rest.iter().filter_map(said));
    found
}

#[test]
fn killed_writers_lose_no_acknowledged_message_with_sync_flush() {
    kill_again_and_again(true);
}

#[test]
fn killed_writers_lose_no_acknowledged_message_async() {
    kill_again_and_again(false);
}
