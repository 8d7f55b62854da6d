//! Writes, syncs, truncations and full disks of a log file.

use super::*;

#[test]
fn pages_unmapped_by_a_sync_stay_readable_and_writable() {
    const LENGTH: u64 = 1 << 20;
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    std::fs::write(&path, vec![0; LENGTH as usize]).unwrap();
    let disk = appending(&path, WriteMode::Map);
    let mut expected = Vec::new();
    for (bytes, byte) in [5_000, 100, 8_192, 20_000].into_iter().zip(b'a'..) {
        let (from, record) = (expected.len() as u64, vec![byte; bytes]);
        disk.write_at(from, &[&record]).unwrap();
        expected.extend_from_slice(&record);
        let to = expected.len() as u64;
        disk.sync(from, to).unwrap();
        let resident = disk.resident(0, to).unwrap();
        // SAFETY: the disk lives, and the test does not write at the same time.
        assert_eq!(unsafe { &*resident }, &expected[..]);
        assert_eq!(std::fs::read(&path).unwrap()[..expected.len()], expected);
    }
}

fn truncated_while_open() -> (tempfile::TempDir, std::fs::File, FileDisk) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    std::fs::write(&path, vec![7; 1 << 20]).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let disk = appending(&path, WriteMode::Map);
    (root, file, disk)
}

#[test]
fn an_append_to_a_truncated_file_fails() {
    let (_root, file, disk) = truncated_while_open();
    disk.write_at(0, &[b"record"]).unwrap();
    file.set_len(8_192).unwrap();
    disk.write_at(100, &[b"a page that is there"]).unwrap();
    let error = disk.write_at(100_000, &[b"lost"]).unwrap_err();
    assert!(error.to_string().contains("truncated"), "{error}");
    assert!(disk.write_at(200, &[b"refused"]).is_err());
    assert!(disk.sync(0, 100).is_err());
    let mut read = [0; 6];
    assert_eq!(disk.read_at(0, &mut read).unwrap(), 6);
    let mut out = Vec::new();
    assert!(disk.copy_from_memory(&[(0, 6)], &mut out).unwrap());
    assert_eq!((&read, &out[..]), (b"record", &b"record"[..]));
}

const FULL_DISK: &str = "MQSTACK_FULL_DISK";

/// Runs in a child process with a small file system mounted.
#[test]
#[ignore = "needs a small file system"]
fn child_that_fills_its_disk() {
    let path = Path::new(&std::env::var_os(FULL_DISK).unwrap()).join("file");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(1 << 20).unwrap();
    let disk = appending(&path, WriteMode::Map);
    disk.write_at(0, &[b"record"]).unwrap();
    disk.sync(0, 6).unwrap();
    let error = disk.write_at(4_096, &[&vec![7; 512 << 10]]).unwrap_err();
    assert!(error.to_string().contains("mapped page is gone"), "{error}");
    assert!(disk.sync(0, 6).is_err());
    let mut read = [0; 6];
    assert_eq!(disk.read_at(0, &mut read).unwrap(), 6);
    assert_eq!(&read, b"record");
}

/// The length of the file does not show this fault; only the signal does.
#[test]
fn an_append_to_pages_that_the_disk_cannot_take_fails() {
    let (_, room) = module_path!().split_once("::").unwrap();
    const FAILED: i32 = 101;
    let script = format!(
        "mount -t tmpfs -o size=64k mqstack-test \"${FULL_DISK}\" || exit 77; \
         exec \"$0\" --ignored --exact {room}::child_that_fills_its_disk"
    );
    let root = tempfile::tempdir().unwrap();
    let child = std::process::Command::new("unshare")
        .args(["-Urm", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env(FULL_DISK, root.path())
        .output();
    let code = child.as_ref().map(|child| child.status.code());
    if let Ok(Some(0 | FAILED) | None) = code {
        let child = child.unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(said.contains("1 passed"), "{child:?}");
    } else {
        eprintln!("skipped: no private mount; the tests that truncate a file cover SIGBUS");
    }
}

#[test]
fn lost_bytes_of_a_resident_range_are_noticed() {
    let (_root, file, disk) = truncated_while_open();
    let resident = disk.resident(0, 100_000).unwrap();
    file.set_len(0).unwrap();
    assert!(disk.is_whole());
    // SAFETY: the disk lives, and no thread writes there.
    assert_eq!(unsafe { &*resident }[99_999], 0);
    assert!(!disk.is_whole());
    assert!(disk.resident(0, 10).is_none());
    assert!(!disk.copy_from_memory(&[(0, 10)], &mut Vec::new()).unwrap());
}

#[test]
fn a_sync_notices_a_file_that_is_shorter() {
    for mode in [WriteMode::Map, WriteMode::Write] {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let disk = appending(&path, mode);
        disk.write_at(0, &[b"record"]).unwrap();
        disk.sync(0, 6).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(4_096).unwrap();
        let error = disk.sync(0, 6).unwrap_err();
        assert!(error.to_string().contains("truncated"), "{error}");
    }
}

#[test]
fn an_append_leaves_zeros_up_to_the_end_of_its_page() {
    const LENGTH: usize = 10_000;
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    // The old content must not matter, at any end of an append.
    for sizes in [
        &[100, 3_996, 4_000, 1_904][..],
        &[4_095, 2, 5_903],
        &[10_000],
        &[20, 9_980],
    ] {
        std::fs::write(&path, [b'?'; LENGTH]).unwrap();
        let disk = appending(&path, WriteMode::Write);
        let mut expected = Vec::new();
        for (size, byte) in sizes.iter().zip(b'a'..) {
            let record = vec![byte; *size];
            let (left, right) = record.split_at(size / 2);
            disk.write_at(expected.len() as u64, &[left, right])
                .unwrap();
            expected.extend_from_slice(&record);
            let end = expected.len().next_multiple_of(4_096).min(LENGTH);
            let mut whole = expected.clone();
            whole.resize(end, 0);
            assert_eq!(std::fs::read(&path).unwrap()[..end], whole);
        }
    }
}
