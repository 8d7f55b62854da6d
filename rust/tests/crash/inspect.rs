//! For a person: what recovery makes of an image.

use std::path::PathBuf;

use crate::rig::Rig;

#[test]
#[ignore]
fn inspect() {
    let root = PathBuf::from(std::env::var_os("IMAGE").unwrap());
    let size = std::env::var("SIZE").map_or(8, |s| s.parse().unwrap());
    let rig = Rig::new(std::env::var_os("SYNC").is_some(), size << 10);
    let store = rig.open(&root);
    store.close().unwrap();
    std::fs::write(root.join("abort"), b"").unwrap();
}
