//! kill -9 of a process that writes with SYNC_FLUSH: what it was told is durable is there, once.

#![allow(clippy::unwrap_used, reason = "a test's helpers")]

mod common;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::{bodies, directory, message, open};
use mqstack_core::store::PutStatus;

const ROOT: &str = "MQSTACK_CRASH_ROOT";
const THREADS: usize = 4;
const ACKNOWLEDGED: usize = 500;

/// The victim: writes for ever, a queue a thread, and says each acknowledged body.
#[test]
#[ignore = "run as a child process by the test below"]
fn victim() {
    let root = PathBuf::from(std::env::var_os(ROOT).expect("set by the parent"));
    let store = open(&root, true);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                for count in 0.. {
                    let body = format!("{thread}-{count}");
                    let key = format!("UNIQ_KEY\x01{body}");
                    let request = message(thread as i32, body.as_bytes(), key.as_bytes());
                    let put = store.put(&request);
                    assert_eq!(store.wait(put).status, PutStatus::Ok);
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "acknowledged {body}").unwrap();
                    out.flush().unwrap();
                }
            });
        }
    });
}

#[test]
fn acknowledged_messages_survive_kill_9_once() {
    let root = directory();
    for round in 0..3 {
        // The victim counts from 0 in each round, so an older store would confuse the bodies.
        let store_root = root.path().join(round.to_string());
        let acknowledged = kill_after(&store_root, ACKNOWLEDGED * (round + 1));
        let store = open(&store_root, true);
        let mut seen: HashMap<String, usize> = HashMap::new();
        for queue_id in 0..THREADS as i32 {
            for body in bodies(&store, queue_id) {
                *seen.entry(String::from_utf8(body).unwrap()).or_default() += 1;
            }
        }
        assert!(seen.values().all(|count| *count == 1));
        let lost: Vec<_> = acknowledged
            .iter()
            .filter(|body| !seen.contains_key(*body))
            .collect();
        assert!(lost.is_empty(), "{lost:?}");
        for body in acknowledged.iter().step_by(50) {
            let mut out = Vec::new();
            let found = store.query(common::TOPIC, body, 64, 0, i64::MAX, &mut out);
            assert_eq!(found.message_count, 1, "index of {body}");
        }
        store.close().unwrap();
    }
}

/// Starts the victim and kills it once it has said enough; returns what it said.
fn kill_after(root: &std::path::Path, count: usize) -> Vec<String> {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--ignored", "--nocapture"])
        .env(ROOT, root)
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
    // What was in the pipe was acknowledged too; the last line may be cut.
    let mut rest: Vec<_> = lines.map_while(Result::ok).collect();
    rest.pop();
    found.extend(rest.iter().filter_map(said));
    found
}
