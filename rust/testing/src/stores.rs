//! Stores that Java wrote, for tests.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;
use tempfile::TempDir;

/// A file or folder of the golden data.
pub fn golden(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("../../tests/golden").join(name)
}

/// A temporary directory on a memory file system if there is one, because stores sync often.
pub fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

/// A fresh copy of a golden store.
pub fn unpack(name: &str) -> TempDir {
    let root = directory();
    let file = fs::File::open(golden(name).join("store.tar.gz")).unwrap();
    let mut archive = tar::Archive::new(GzDecoder::new(file));
    archive.unpack(root.path()).unwrap();
    root
}

/// The objects of a golden list.
pub fn lines(name: &str) -> Vec<Value> {
    let mut text = String::new();
    let file = fs::File::open(golden(name)).unwrap();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Every file that RocketMQ knows, by path relative to the root.
pub fn snapshot(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            if path.is_dir() {
                directories.push(path);
            } else if !name.starts_with("mqstack") {
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

/// The records of a golden store's log, one after the other, and how many there are.
pub fn records(name: &str) -> (Vec<u8>, usize) {
    let root = unpack(name);
    let mut files: Vec<_> = fs::read_dir(root.path().join("commitlog"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    let (mut records, mut count) = (Vec::new(), 0);
    for file in files {
        let bytes = fs::read(file).unwrap();
        let mut rest = &bytes[..];
        // A blank record, or zeros, end a file.
        while rest.len() >= 8 && rest[4..8] != 0xCBD4_3194_u32.to_be_bytes() {
            let size = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
            if size == 0 {
                break;
            }
            records.extend_from_slice(&rest[..size]);
            rest = &rest[size..];
            count += 1;
        }
    }
    (records, count)
}
