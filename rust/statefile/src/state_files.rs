//! State files under `{root}/config`, which are replaced atomically.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::aside::{self, Aside};
use crate::directories::{create_directory, sync_directory};
use crate::error::{FileError, io_error};
use crate::json;
use crate::seal::{self, Seal, Verdict};
use mq_log::fs::{self, OpenOptions};

/// Largest state file, bytes.
pub const STATE_BYTES_MAX: u64 = 1 << 30;

/// The read error of a medium that has lost the file: `EIO`.
const MEDIUM_ERROR: i32 = libc::EIO;

/// The directory of RocketMQ's JSON files.
#[derive(Debug)]
pub struct StateFiles {
    directory: PathBuf,
    /// Holds checksums and unusable entries.
    own: PathBuf,
    /// Serializes saves, because two saves of one name would share the temporary file.
    saving: Mutex<()>,
    /// Missing or damaged files. They must not replace their previous copy, which is good.
    unusable: Mutex<HashSet<String>>,
}

impl StateFiles {
    /// The state files of the store at `root`. Creates nothing before the first save.
    pub fn new(root: &Path) -> Self {
        Self::at(&root.join("config"), &root.join("mqstack"))
    }

    /// State files in any directory; checksums and quarantine are in `own`.
    pub fn at(directory: &Path, own: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            own: own.to_owned(),
            saving: Mutex::new(()),
            unusable: Mutex::default(),
        }
    }

    /// Replaces `name` by `bytes` and syncs it. The previous content stays in `{name}.bak`, or goes
    /// to quarantine if it was damaged.
    pub fn save(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        let _saving = self.saving.lock();
        let path = self.path_of(name)?;
        if bytes.len() as u64 > STATE_BYTES_MAX {
            let what = format!(
                "{} bytes are too many: at most {STATE_BYTES_MAX} can be read again",
                bytes.len()
            );
            let error = io::Error::new(io::ErrorKind::FileTooLarge, what);
            return Err(io_error(&path)(error));
        }
        create_directory(&self.directory)?;
        let temporary = self.directory.join(format!("{name}.tmp"));
        let backup = self.directory.join(format!("{name}.bak"));
        let new = write_synced(&temporary, bytes, &path).map_err(io_error(&temporary))?;
        if !exists(&path)? && !exists(&backup)? {
            // After this sync, a checksum without the file and the temporary file means that the
            // file was deleted.
            sync_directory(&self.directory)?;
        }
        self.note(name, new, [&path, &backup])?;
        match self.unusable.lock().contains(name) {
            true => {
                create_directory(&self.quarantine())?;
                keep_previous(&path, &self.quarantine().join(name))?;
            }
            false => keep_previous(&path, &backup)?,
        }
        fs::rename(&temporary, &path).map_err(io_error(&path))?;
        self.unusable.lock().remove(name);
        sync_directory(&self.directory)
    }

    /// Adds the new version to the checksum file, beside the versions that exist.
    fn note(&self, name: &str, new: Seal, present: [&Path; 2]) -> Result<(), FileError> {
        let side = seal::path_of(&self.own, name);
        let known = seal::read(&side)?;
        let mut seals = vec![new];
        for path in present {
            let Some(modified_ns) = seal::modified_ns(path).map_err(io_error(path))? else {
                continue;
            };
            seals.extend(known.iter().filter(|seal| seal.is_of(modified_ns)));
        }
        seal::write(&side, &seals)
    }

    /// The content of `name` if it is usable, else of `{name}.bak`; None if neither file exists.
    /// [`FileError::Unusable`] if a file exists and none is usable.
    pub fn load(
        &self,
        name: &str,
        is_usable: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>, FileError> {
        let check = |bytes: &[u8]| match is_usable(bytes) {
            true => Ok(bytes.to_vec()),
            false => Err("not the content that RocketMQ writes".to_owned()),
        };
        self.load_checked(name, check)
    }

    /// Like [`StateFiles::load`]; `check` converts the bytes, or returns their fault.
    pub fn load_checked<T>(
        &self,
        name: &str,
        check: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, FileError> {
        let path = self.path_of(name)?;
        let mut unusable = Vec::new();
        for candidate in self.candidates(name)? {
            let shown = candidate.path.display().to_string();
            match candidate.content.and_then(|bytes| check(&bytes)) {
                Ok(content) => {
                    if candidate.path != path {
                        self.unusable.lock().insert(name.to_owned());
                        let state = match unusable.is_empty() {
                            true => "missing",
                            false => "damaged",
                        };
                        let what = format!("{name} is {state}: its previous copy is used");
                        tracing::warn!(path = shown, "{what}");
                    }
                    return Ok(Some(content));
                }
                Err(reason) => {
                    tracing::warn!(path = shown, reason, "ignored a damaged state file");
                    unusable.push((candidate.path, reason));
                }
            }
        }
        let Some((path, reason)) = unusable.first() else {
            if self.is_lost(name)? {
                let shown = path.display().to_string();
                tracing::error!(path = shown, "state file and its previous copy are missing");
            }
            return Ok(None);
        };
        self.unusable.lock().insert(name.to_owned());
        Err(FileError::Unusable {
            path: path.display().to_string(),
            reason: reason.clone(),
            command: self.begin_without(unusable.iter().map(|(path, _)| path.as_path())),
        })
    }

    /// Whether the last load of `name` used its previous copy.
    pub fn is_from_copy(&self, name: &str) -> bool {
        self.unusable.lock().contains(name)
    }

    /// Whether `name` was saved before and no version of it exists. A first save that a crash
    /// interrupted leaves its temporary file.
    pub fn is_lost(&self, name: &str) -> Result<bool, FileError> {
        self.path_of(name)?;
        for end in ["", ".bak", ".tmp"] {
            if exists(&self.directory.join(format!("{name}{end}")))? {
                return Ok(false);
            }
        }
        Ok(!seal::read(&seal::path_of(&self.own, name))?.is_empty())
    }

    /// The shell command that moves files to quarantine, so that the next start begins without
    /// them.
    fn begin_without<'a>(&self, files: impl Iterator<Item = &'a Path>) -> String {
        let quoted =
            |path: &Path| format!("'{}'", path.display().to_string().replace('\'', "'\\''"));
        let files: Vec<String> = files.map(quoted).collect();
        let to = quoted(&self.quarantine());
        format!("mkdir -p {to} && mv {} {to}", files.join(" "))
    }

    /// Keeps and logs unusable entries of a file. The next save of the file drops them.
    pub fn set_aside(&self, name: &str, entries: &[Aside]) {
        if let Err(error) = aside::keep(&self.quarantine(), name, entries) {
            tracing::error!(%error, "cannot keep unusable entries; only this log shows them");
        }
    }

    fn quarantine(&self) -> PathBuf {
        self.own.join("quarantine")
    }

    /// The file and its previous copy, if they exist, in the order of preference.
    pub fn candidates(&self, name: &str) -> Result<Vec<Candidate>, FileError> {
        let path = self.path_of(name)?;
        let side = seal::path_of(&self.own, name);
        let known = seal::read(&side)?;
        if known.is_empty() && exists(&path)? && side.parent().is_some_and(Path::exists) {
            tracing::info!(path = %path.display(), "accepted a state file without a checksum");
        }
        let mut found = Vec::new();
        for path in [path, self.directory.join(format!("{name}.bak"))] {
            match checked(&path, &known) {
                Ok(content) => found.push(Candidate { path, content }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.raw_os_error() == Some(MEDIUM_ERROR) => {
                    let content = Err(error.to_string());
                    found.push(Candidate { path, content });
                }
                Err(error) => return Err(io_error(&path)(error)),
            }
        }
        Ok(found)
    }

    /// Names come from callers outside of the store, so they must not leave the directory.
    fn path_of(&self, name: &str) -> Result<PathBuf, FileError> {
        if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
            return Err(FileError::Name {
                name: name.to_owned(),
            });
        }
        Ok(self.directory.join(name))
    }
}

fn exists(path: &Path) -> Result<bool, FileError> {
    Ok(seal::modified_ns(path).map_err(io_error(path))?.is_some())
}

/// A state file or its previous copy.
#[derive(Debug)]
pub struct Candidate {
    /// Path of the file.
    pub path: PathBuf,
    /// The content, or why it is damaged.
    pub content: Result<Vec<u8>, String>,
}

/// The content of a file, unless it is damaged according to its checksum.
fn checked(path: &Path, known: &[Seal]) -> io::Result<Result<Vec<u8>, String>> {
    let bytes = fs::read_own(path, STATE_BYTES_MAX)?;
    if bytes.is_empty() && is_json(path) {
        return Ok(Err("empty".to_owned()));
    }
    let file = fs::open_own(path, OpenOptions::new().read(true))?;
    Ok(match seal::verdict(known, &Seal::of(&file, &bytes)?) {
        Verdict::Damaged => Err(no_checksum(path, &bytes)),
        Verdict::Unknown if !known.is_empty() => {
            tracing::info!(path = %path.display(), "accepted a state file of another program");
            Ok(bytes)
        }
        Verdict::Ours | Verdict::Unknown => Ok(bytes),
    })
}

/// Whether a file or the original of a previous copy has a JSON name.
fn is_json(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.trim_end_matches(".bak").ends_with(".json")
}

/// The fault of a file with a wrong checksum; includes the end of its valid JSON, if that shows the
/// damage.
fn no_checksum(path: &Path, bytes: &[u8]) -> String {
    let what = format!("its {} bytes do not match their checksum", bytes.len());
    match is_json(path).then(|| json::flaw(bytes)).flatten() {
        Some(flaw) => format!("{what}; {flaw}"),
        None => what,
    }
}

fn write_synced(path: &Path, bytes: &[u8], replaced: &Path) -> io::Result<Seal> {
    let file = fs::create_own(path)?;
    file.keep_mode(replaced)?;
    file.write_all_at(bytes, 0)?;
    file.sync_all()?;
    Seal::of(&file, bytes)
}

/// Makes the current file the previous one. With hard links there is no moment in which neither
/// exists. Without them there is one, and then `load` reads the copy.
fn keep_previous(path: &Path, backup: &Path) -> Result<(), FileError> {
    let link = backup.with_extension("bak.tmp");
    remove_if_present(&link)?;
    let kept = fs::hard_link(path, &link)
        .and_then(|()| fs::rename(&link, backup))
        .or_else(|_| fs::rename(path, backup));
    match kept {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(backup)(error)),
        _ => Ok(()),
    }
}

fn remove_if_present(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "topics.json";

    fn any(_: &[u8]) -> bool {
        true
    }

    #[test]
    fn a_save_keeps_the_previous_copy() {
        let root = tempfile::tempdir().unwrap();
        let state = StateFiles::new(root.path());
        assert_eq!(state.load(NAME, any).unwrap(), None);
        for content in [&b"one"[..], b"two", b"three"] {
            state.save(NAME, content).unwrap();
        }
        assert_eq!(state.load(NAME, any).unwrap().unwrap(), b"three");
        let config = root.path().join("config");
        assert_eq!(
            std::fs::read(config.join("topics.json.bak")).unwrap(),
            b"two"
        );
        assert_eq!(fs::read_dir(config).unwrap().count(), 2);
    }

    #[test]
    fn the_copy_is_read_when_the_file_is_missing_empty_or_unusable() {
        let root = tempfile::tempdir().unwrap();
        let state = StateFiles::new(root.path());
        state.save(NAME, b"old").unwrap();
        state.save(NAME, b"new").unwrap();
        let load = || state.load(NAME, |bytes| bytes != b"torn").unwrap();
        let path = root.path().join("config").join(NAME);
        std::fs::write(&path, b"torn").unwrap();
        assert_eq!(load().unwrap(), b"old");
        std::fs::write(&path, b"").unwrap();
        assert_eq!(load().unwrap(), b"old");
        fs::remove_file(&path).unwrap();
        assert_eq!(load().unwrap(), b"old");
    }

    #[test]
    fn a_missing_file_is_noticed_and_its_copy_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let state = StateFiles::new(root.path());
        assert!(!state.is_lost(NAME).unwrap(), "there was never a file");
        state.save(NAME, b"old").unwrap();
        let path = root.path().join("config").join(NAME);
        fs::remove_file(&path).unwrap();
        assert!(state.is_lost(NAME).unwrap());
        assert_eq!(state.load(NAME, any).unwrap(), None);
        state.save(NAME, b"old").unwrap();
        state.save(NAME, b"new").unwrap();
        assert_eq!(state.load(NAME, any).unwrap().unwrap(), b"new");
        assert!(!state.is_from_copy(NAME));
        fs::remove_file(&path).unwrap();
        assert_eq!(state.load(NAME, any).unwrap().unwrap(), b"old");
        assert!(state.is_from_copy(NAME) && !state.is_lost(NAME).unwrap());
        state.save(NAME, b"next").unwrap();
        assert!(!state.is_from_copy(NAME));
        let copy = std::fs::read(path.with_extension("json.bak")).unwrap();
        assert_eq!(copy, b"old");
    }

    #[test]
    fn every_flipped_bit_is_found_and_the_copy_is_read() {
        let root = tempfile::tempdir().unwrap();
        let state = StateFiles::new(root.path());
        state.save(NAME, b"{\"old\":1}").unwrap();
        state.save(NAME, b"{\"new\":2}").unwrap();
        let path = root.path().join("config").join(NAME);
        let whole = std::fs::read(&path).unwrap();
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &flipped).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(modified).unwrap();
            let loaded = state.load(NAME, any).unwrap().unwrap();
            assert_eq!(loaded, b"{\"old\":1}", "bit {bit}");
        }
        std::fs::remove_file(path.with_extension("json.bak")).unwrap();
        let refused = state.load(NAME, any).unwrap_err().to_string();
        assert!(
            refused.contains("topics.json") && refused.contains("checksum"),
            "{refused}"
        );
    }

    #[test]
    fn a_file_of_another_program_is_accepted() {
        let root = tempfile::tempdir().unwrap();
        let state = StateFiles::new(root.path());
        state.save(NAME, b"ours").unwrap();
        let path = root.path().join("config").join(NAME);
        std::fs::write(&path, b"java").unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
        file.set_modified(later).unwrap();
        assert_eq!(state.load(NAME, any).unwrap().unwrap(), b"java");
    }

    #[test]
    fn a_crash_after_any_file_operation_leaves_a_good_file() {
        use crash::StopAfter;
        for stop in 0.. {
            let root = tempfile::tempdir().unwrap();
            let state = StateFiles::new(root.path());
            state.save(NAME, b"one").unwrap();
            state.save(NAME, b"two").unwrap();
            let watch = mq_log::watch(root.path(), StopAfter::new(stop));
            let saved = state.save(NAME, b"three");
            drop(watch);
            let found = state.candidates(NAME).unwrap();
            let is_whole = |candidate: &Candidate| candidate.content.is_ok();
            assert!(
                found.iter().all(is_whole),
                "after {stop} operations: {found:?}"
            );
            let loaded = state.load(NAME, any).unwrap().unwrap();
            assert!(
                loaded == b"two" || loaded == b"three",
                "after {stop} operations"
            );
            assert!(!state.is_lost(NAME).unwrap());
            if saved.is_ok() {
                assert_eq!(loaded, b"three");
                assert!(stop > 10, "operations are counted");
                return;
            }
            state.save(NAME, b"four").unwrap();
            assert_eq!(state.load(NAME, any).unwrap().unwrap(), b"four");
        }
    }

    #[test]
    fn links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let state = StateFiles::new(root.path());
        state.save(NAME, b"one").unwrap();
        let path = root.path().join("config").join(NAME);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let refused = state.load(NAME, any).unwrap_err().to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
    }

    mod crash {
        use std::io;
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};

        use mq_log::{IoHook, Operation, Target};

        /// Lets this number of operations succeed and fails every later one.
        #[derive(Debug)]
        pub struct StopAfter(AtomicUsize);

        impl StopAfter {
            pub fn new(operations: usize) -> Arc<Self> {
                Arc::new(Self(AtomicUsize::new(operations)))
            }
        }

        impl IoHook for StopAfter {
            fn before(&self, _: Target<'_>, _: &Operation<'_>) -> io::Result<u64> {
                let left = |left: usize| left.checked_sub(1);
                match self
                    .0
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left)
                {
                    Ok(_) => Ok(0),
                    Err(_) => Err(io::Error::other("stopped")),
                }
            }

            fn after(&self, _: Target<'_>, _: &Operation<'_>, _: u64) {}
        }
    }

    #[test]
    fn names_cannot_leave_the_directory() {
        let root = tempfile::tempdir().unwrap();
        let state = StateFiles::new(root.path());
        for name in ["", ".", "..", "../lock", "a/b", "/a", "a\0b"] {
            assert!(state.save(name, b"x").is_err(), "{name:?}");
            assert!(state.load(name, any).is_err(), "{name:?}");
        }
    }
}
