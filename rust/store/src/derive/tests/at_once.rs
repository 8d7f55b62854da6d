//! Deriving a whole log at once gives the same files as dispatch during its growth.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::derive;
use crate::settings::Settings;
use crate::tests::store_rig::{Rig, rig_with, settings};
use crate::tests::test_rig::request;
use crate::types::{PutRequest, PutStatus};
use mq_format::message::sys_flag;

/// Size of the log, in several files.
const LOG_BYTES: i64 = 7 << 20;
const LOG_FILE_BYTES: u64 = 2 << 20;

/// Usual sizes, and one larger than a single read.
const BODIES: [usize; 3] = [10, 1_000, 1_200_000];

fn filled_rig() -> Rig {
    let settings = Settings {
        commit_log_file_bytes: Some(LOG_FILE_BYTES),
        consume_queue_file_bytes: Some(600),
        allocate_step_bytes: 1 << 20,
        index_enabled: false,
        ..settings()
    };
    let rig = rig_with(settings);
    let bodies = BODIES.map(|bytes| vec![b'x'; bytes]);
    let mut number = 0_usize;
    while rig.store.max_physical_offset() < LOG_BYTES {
        let body = match number % 500 {
            0 => &bodies[2],
            other => &bodies[other % 2],
        };
        let topics = ["A", "B", "topic-é"];
        let request = PutRequest {
            queue_id: (number % 5) as i32,
            sys_flag: [0, sys_flag::PREPARED, sys_flag::ROLLBACK, sys_flag::COMMIT][number % 4],
            ..request(topics[number % 3], body)
        };
        let put = rig.store.put(&request);
        assert_eq!(rig.store.wait(put).status, PutStatus::Ok);
        number += 1;
    }
    rig.wait_until_flushed();
    rig
}

/// The content of every file below a directory.
fn contents(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.display().to_string(), fs::read(path).unwrap());
        }
    }
    found
}

#[test]
fn a_log_gives_the_same_files_as_dispatch() {
    let rig = filled_rig();
    let end = rig.store.max_physical_offset().cast_unsigned();
    rig.store.close().unwrap();
    let queues = rig.root.path().join("consumequeue");
    let expected = contents(&queues);
    assert!(expected.len() > 15, "{}", expected.len());
    fs::remove_dir_all(&queues).unwrap();
    assert_eq!(derive::queues(rig.root.path(), &rig.settings).unwrap(), end);
    let found = contents(&queues);
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>()
    );
    assert!(found == expected, "same files, other units");
}

#[test]
fn a_log_is_derived_up_to_damage() {
    let rig = filled_rig();
    rig.store.close().unwrap();
    let file = rig
        .root
        .path()
        .join(format!("commitlog/{LOG_FILE_BYTES:020}"));
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.len() / 2;
    bytes[at..].fill(0);
    fs::write(&file, bytes).unwrap();
    fs::remove_dir_all(rig.root.path().join("consumequeue")).unwrap();
    let end = derive::queues(rig.root.path(), &rig.settings).unwrap();
    // The damage starts in a record whose header contains its end.
    let record_max = BODIES[2] as u64 + 200;
    let damage = LOG_FILE_BYTES + at as u64;
    assert!(
        (damage..damage + record_max).contains(&end),
        "{damage} {end}"
    );
}
