//! Every file operation of a store goes through `mq_log::fs`, so that crash tests can watch and
//! break it.

use std::fs;
use std::path::{Path, PathBuf};

/// Names that bypass [`mq_log::fs`].
const PAST_THE_SEAM: [&str; 6] = [
    "std::fs",
    "std::os::unix::fs",
    "rustix::fs::{",
    "rustix::fs::fallocate",
    "rustix::io::",
    "tokio::fs",
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

#[test]
fn store_crates_use_no_other_file_system_api() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = Vec::new();
    for room in ["log", "store", "offline"] {
        sources(&crates.join(room).join("src"), &mut paths);
    }
    paths.retain(|path| !path.ends_with("log/src/fs.rs") && !is_test(path));
    assert!(paths.len() > 40);
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        for past in PAST_THE_SEAM {
            assert!(!code.contains(past), "{} uses {past}", path.display());
        }
    }
}

fn is_test(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    let is_among_tests = path
        .parent()
        .is_some_and(|parent| parent.ends_with("tests"));
    let ends = ["tests.rs", "testing.rs", "_rig.rs"];
    is_among_tests || ends.iter().any(|end| name.ends_with(end))
}
