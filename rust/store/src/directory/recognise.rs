//! Recognizes files of a newer RocketMQ in a store directory, and names the messages or settings
//! that are ignored because of them.

use std::path::Path;

use crate::files::{list, offset_files};
use mq_format::message::MAGIC_V2;
use mq_log::fs::{self, OpenOptions};
use mq_statefile::STATE_BYTES_MAX;

/// How we treat a part that a newer RocketMQ wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Read like everything else; older RocketMQ versions cannot read it.
    Read,
    /// Ignored: its content is missing, the rest of the store is right.
    Ignored,
    /// Appending would lose or mix up messages, so the store is only read.
    Refused,
}

/// A part of a store that a newer RocketMQ wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// Path relative to the root.
    pub path: String,
    /// What it is, and which messages or settings are not read because of it.
    pub what: &'static str,
    /// How we treat it.
    pub effect: Effect,
}

const TOPIC_QUEUES: &str = "batch consume queues of RocketMQ 5 (queue.type=BatchCQ): these \
     topics' queues are not read; their messages are in the log, several in one record";
const ROCKSDB_QUEUES: &str = "consume queues in RocksDB (RocketMQ 5, storeType=defaultRocksDB): \
     no queue is read; every message is in the log";
const ROCKSDB_CONFIG: &str = "topics, groups or offsets in RocksDB (RocketMQ 5): not read, only \
     the JSON files beside it are";
const ROCKSDB_OTHER: &str = "RocksDB data of RocketMQ 5 (POP and the like): not read";
const TIMER: &str = "timer wheel of RocketMQ 5: messages still waiting in rmq_sys_wheel_timer \
     for their time are not delivered; they can be read from that topic";
const COMPACTION: &str = "compacted topics of RocketMQ 5: what only the compacted log still \
     holds is not read";
const DLEDGER: &str = "a DLedger log: the messages in it are not read, only those in commitlog";
const CONTROLLER: &str = "replication state of RocketMQ 5's controller mode: not used";
const MAPPING: &str = "static topics of RocketMQ 5: the mapping of logic queues is not used";
const VERSION_2: &str = "records of version 2 (RocketMQ 5, topics above 127 bytes): read; \
     RocketMQ 4 ends the log at the first of them";

/// Finds parts of a newer RocketMQ in the store at `root`; skips unreadable ones. Reads names and a
/// few bytes.
pub fn recognise(root: &Path) -> Vec<Foreign> {
    let mut found = Vec::new();
    let mut tell = |path: &str, what, effect| {
        found.push(Foreign {
            path: path.to_owned(),
            what,
            effect,
        });
    };
    for (name, path) in list(root).unwrap_or_default() {
        match name.as_str() {
            "consumequeue" if is_rocksdb(&path) => tell(&name, ROCKSDB_QUEUES, Effect::Refused),
            "batchconsumequeue" if has_file(&path, 3) => {
                tell(&name, TOPIC_QUEUES, Effect::Refused);
            }
            "compaction" if has_file(&path.join("compactionLog"), 3) => {
                tell(&name, COMPACTION, Effect::Refused);
            }
            "timerlog" if has_file(&path, 1) => tell(&name, TIMER, Effect::Ignored),
            "epochFileCheckpoint" | "brokerIdentity" => tell(&name, CONTROLLER, Effect::Ignored),
            "config" => recognise_config(&path, &mut tell),
            "commitlog" if has_version_2(&path) => tell(&name, VERSION_2, Effect::Read),
            _ if name.starts_with("dledger-") && has_file(&path.join("data"), 1) => {
                tell(&name, DLEDGER, Effect::Refused);
            }
            _ if is_rocksdb(&path) => tell(&name, ROCKSDB_OTHER, Effect::Ignored),
            _ => {}
        }
    }
    found
}

fn recognise_config(directory: &Path, tell: &mut impl FnMut(&str, &'static str, Effect)) {
    for (name, path) in list(directory).unwrap_or_default() {
        let relative = format!("config/{name}");
        if is_rocksdb(&path) {
            tell(&relative, ROCKSDB_CONFIG, Effect::Ignored);
        } else if name == "topicQueueMapping.json" && has_mappings(&path) {
            tell(&relative, MAPPING, Effect::Ignored);
        }
    }
}

/// RocksDB keeps the name of its manifest in a file CURRENT.
fn is_rocksdb(directory: &Path) -> bool {
    directory.join("CURRENT").is_file()
}

/// Whether there is a non-empty file within this many directory levels.
fn has_file(directory: &Path, levels: usize) -> bool {
    let is_used = |path: &Path| match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => levels > 1 && has_file(path, levels - 1),
        Ok(metadata) => metadata.len() > 0,
        Err(_) => false,
    };
    let entries = list(directory).unwrap_or_default();
    entries.iter().any(|(_, path)| is_used(path))
}

/// Whether the table of mappings has an entry. RocketMQ 5 always writes the file.
fn has_mappings(path: &Path) -> bool {
    let text = fs::read_own(path, STATE_BYTES_MAX).unwrap_or_default();
    let text: String = String::from_utf8_lossy(&text).split_whitespace().collect();
    let table = text.split_once("\"topicQueueMappingInfoMap\":{");
    table.is_some_and(|(_, entries)| !entries.starts_with('}'))
}

/// Whether a log file begins with a record of version 2.
fn has_version_2(directory: &Path) -> bool {
    let mut files = offset_files(directory).unwrap_or_default().into_iter();
    files.any(|file| {
        let mut head = [0; 8];
        let open = fs::open_own(&file.path, OpenOptions::new().read(true));
        let read = open.and_then(|file| file.read_at(&mut head, 0));
        matches!(read, Ok(8)) && head[4..] == MAGIC_V2.to_be_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(root: &Path, name: &str, content: &[u8]) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn effects(root: &Path) -> Vec<(String, Effect)> {
        let found = recognise(root).into_iter();
        let mut found: Vec<_> = found
            .map(|foreign| (foreign.path, foreign.effect))
            .collect();
        found.sort_by(|left, right| left.0.cmp(&right.0));
        found
    }

    #[test]
    fn a_store_of_version_4_is_not_foreign() {
        let root = mq_testing::stores::unpack("store");
        assert_eq!(recognise(root.path()), []);
        assert_eq!(recognise("/no/such/directory".as_ref()), []);
    }

    #[test]
    fn links_are_not_followed() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let magic = [&[0; 4][..], &MAGIC_V2.to_be_bytes()].concat();
        write(outside.path(), "log", &magic);
        let mapping = br#"{"topicQueueMappingInfoMap":{"T":{}}}"#;
        write(outside.path(), "mapping", mapping);
        let places = [
            ("log", "commitlog/00000000000000000000"),
            ("mapping", "config/topicQueueMapping.json"),
        ];
        for (from, to) in places {
            let to = root.path().join(to);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(outside.path().join(from), to).unwrap();
        }
        assert_eq!(effects(root.path()), []);
    }

    #[test]
    fn empty_directories_of_version_5_are_ignored() {
        let root = tempfile::tempdir().unwrap();
        for name in [
            "batchconsumequeue",
            "timerlog",
            "compaction/compactionLog",
            "dledger-n0/data",
            "config",
        ] {
            fs::create_dir_all(root.path().join(name)).unwrap();
        }
        let empty = br#"{ "topicQueueMappingInfoMap" : { }, "dataVersion":{} }"#;
        write(root.path(), "config/topicQueueMapping.json", empty);
        write(root.path(), "timerwheel", &[0; 32]);
        assert_eq!(effects(root.path()), []);
    }

    #[test]
    fn each_part_of_version_5_is_found_with_its_effect() {
        let root = tempfile::tempdir().unwrap();
        let (name, magic) = ("00000000000000000000", MAGIC_V2.to_be_bytes());
        write(root.path(), "consumequeue/CURRENT", b"MANIFEST-000001\n");
        write(
            root.path(),
            &format!("batchconsumequeue/T/0/{name}"),
            &[0; 46],
        );
        write(
            root.path(),
            &format!("compaction/compactionLog/T/0/{name}"),
            b"x",
        );
        write(root.path(), &format!("timerlog/{name}"), &[0; 52]);
        write(root.path(), &format!("dledger-n0/data/{name}"), b"x");
        write(
            root.path(),
            &format!("commitlog/{name}"),
            &[&[0; 4][..], &magic].concat(),
        );
        write(root.path(), "kvStore/CURRENT", b"MANIFEST-000001\n");
        write(root.path(), "config/topics/CURRENT", b"MANIFEST-000001\n");
        let mapping = br#"{"topicQueueMappingInfoMap":{"T":{}}}"#;
        write(root.path(), "config/topicQueueMapping.json", mapping);
        write(root.path(), "brokerIdentity", b"c#b#1");
        let expected = [
            ("batchconsumequeue", Effect::Refused),
            ("brokerIdentity", Effect::Ignored),
            ("commitlog", Effect::Read),
            ("compaction", Effect::Refused),
            ("config/topicQueueMapping.json", Effect::Ignored),
            ("config/topics", Effect::Ignored),
            ("consumequeue", Effect::Refused),
            ("dledger-n0", Effect::Refused),
            ("kvStore", Effect::Ignored),
            ("timerlog", Effect::Ignored),
        ];
        let expected = expected.map(|(path, effect)| (path.to_owned(), effect));
        assert_eq!(effects(root.path()), expected);
    }
}
