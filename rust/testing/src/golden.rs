//! Stores that a Java broker wrote, and what independent readers found in them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;

/// Length of a commit-log file of every golden store.
pub const LOG_FILE_BYTES: usize = 65_536;
/// Hash slots of an index file of every golden store.
pub const INDEX_SLOTS: u32 = 100;
/// Entries of an index file of every golden store.
pub const INDEX_ENTRIES: u32 = 400;
/// Every golden store that comes with lists of its content.
pub const LISTED: [&str; 6] = [
    "store",
    "store-crashed",
    "store-crashed-recovered",
    "store-damaged/after",
    "store-ext",
    "store-lmq",
];

/// A store directory in memory: path relative to its root -> bytes.
#[derive(Debug)]
pub struct Golden {
    /// Its folder in tests/golden.
    pub name: &'static str,
    /// The files' bytes by path.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Golden {
    /// Reads a golden store into memory.
    pub fn open(name: &'static str) -> Self {
        let mut files = BTreeMap::new();
        let mut archive = tar::Archive::new(unzip(&path(name).join("store.tar.gz")));
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            if entry.header().entry_type().is_file() {
                let path = entry.path().unwrap().to_str().unwrap().to_owned();
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).unwrap();
                files.insert(path.trim_start_matches("./").to_owned(), bytes);
            }
        }
        Self { name, files }
    }

    /// The files of a folder, by their path in it.
    pub fn folder(&self, folder: &str) -> BTreeMap<&str, &[u8]> {
        let prefix = format!("{folder}/");
        self.files
            .iter()
            .filter_map(|(path, bytes)| Some((path.strip_prefix(&prefix)?, &bytes[..])))
            .collect()
    }

    /// The commit log's files, joined in the order of their offsets.
    pub fn commit_log(&self) -> Vec<u8> {
        let files = self.folder("commitlog");
        for (index, (name, bytes)) in files.iter().enumerate() {
            assert_eq!(name.parse(), Ok(index * LOG_FILE_BYTES));
            assert_eq!(bytes.len(), LOG_FILE_BYTES);
        }
        files.into_values().flatten().copied().collect()
    }

    /// The objects of one list of this store.
    pub fn list(&self, list: &str) -> Vec<Value> {
        list_of(self.name, list)
    }
}

/// The objects of a list that came with a golden store.
pub fn list_of(name: &str, list: &str) -> Vec<Value> {
    let mut text = String::new();
    let mut file = unzip(&path(name).join(format!("{list}.jsonl.gz")));
    file.read_to_string(&mut text).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A file or folder of the golden data.
pub fn path(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    root.join(name)
}

/// Lower-case hexadecimal digits of bytes.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unzip(path: &Path) -> GzDecoder<File> {
    GzDecoder::new(File::open(path).unwrap())
}
