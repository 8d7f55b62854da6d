//! Links in a store's directory: nothing outside of the store is read, written or removed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::rebuild_tests::{place, run};
use mq_testing::stores::unpack;

/// A folder outside of the store, with one file.
fn outside() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("theirs");
    fs::write(&file, "keep").unwrap();
    (folder, file)
}

fn is_kept(file: &Path) -> bool {
    fs::read(file).is_ok_and(|content| content == b"keep")
}

#[test]
fn damaged_bytes_are_not_saved_through_a_link() {
    let (_folder, theirs) = outside();
    let (_place, to) = place();
    let done = run(unpack("store-damaged").path(), Some(&to), true).unwrap();
    let saved = done.repaired[0].2.file_name().unwrap();
    let root = unpack("store-damaged");
    let quarantine = root.path().join("mqstack/quarantine");
    fs::create_dir_all(&quarantine).unwrap();
    symlink(&theirs, quarantine.join(saved)).unwrap();
    let refused = run(root.path(), None, true).unwrap_err().to_string();
    assert!(refused.contains("symbolic link"), "{refused}");
    assert!(is_kept(&theirs));
}

#[test]
fn a_copy_has_links_and_not_what_they_lead_to() {
    let (_folder, theirs) = outside();
    let (_place, to) = place();
    let root = unpack("store");
    symlink(&theirs, root.path().join("notes")).unwrap();
    symlink("/dev/zero", root.path().join("endless")).unwrap();
    run(root.path(), Some(&to), false).unwrap();
    assert_eq!(fs::read_link(to.join("notes")).unwrap(), theirs);
    let endless = fs::read_link(to.join("endless")).unwrap();
    assert_eq!(endless, Path::new("/dev/zero"));
}

#[test]
fn a_link_in_place_of_the_building_site_is_removed_alone() {
    let (folder, theirs) = outside();
    let root = unpack("store");
    fs::create_dir_all(root.path().join("mqstack")).unwrap();
    symlink(folder.path(), root.path().join("mqstack/rebuild")).unwrap();
    run(root.path(), None, false).unwrap();
    assert!(is_kept(&theirs));
}
