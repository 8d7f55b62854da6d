//! State files under `{root}/config`: replaced as a whole, or not at all.

use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::files::{create_directory, io_error, sync_directory};
use super::types::StoreError;
use crate::log::fs::{self, File};

/// The directory of RocketMQ's JSON files.
#[derive(Debug)]
pub struct State {
    directory: PathBuf,
    /// One save at a time: two of the same name would share the temporary file.
    saving: Mutex<()>,
}

impl State {
    /// The state files of the store at `root`; creates nothing before the first save.
    pub fn new(root: &Path) -> Self {
        Self {
            directory: root.join("config"),
            saving: Mutex::new(()),
        }
    }

    /// Replaces `name` by `bytes`, durably; what it held before stays in `{name}.bak`.
    pub fn save(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let _saving = self.saving.lock();
        let path = self.path_of(name)?;
        create_directory(&self.directory)?;
        let temporary = self.directory.join(format!("{name}.tmp"));
        write_synced(&temporary, bytes).map_err(io_error(&temporary))?;
        keep_previous(&path, &self.directory.join(format!("{name}.bak")))?;
        fs::rename(&temporary, &path).map_err(io_error(&path))?;
        sync_directory(&self.directory)
    }

    /// The content of `name` if it is usable, else that of `{name}.bak` if that is, else None.
    pub fn load(
        &self,
        name: &str,
        is_usable: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path_of(name)?;
        for path in [path, self.directory.join(format!("{name}.bak"))] {
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(io_error(&path)(error)),
            };
            if !bytes.is_empty() && is_usable(&bytes) {
                return Ok(Some(bytes));
            }
            tracing::warn!(path = %path.display(), "empty or unreadable state file");
        }
        Ok(None)
    }

    /// Names come from callers outside the store, so they must not leave the directory.
    fn path_of(&self, name: &str) -> Result<PathBuf, StoreError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_plain) {
            return Err(StoreError::Setting {
                key: "state file name",
                value: name.to_owned(),
                what: "a plain file name of letters, digits, '.', '_' and '-'",
            });
        }
        Ok(self.directory.join(name))
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = File::create(path)?;
    file.write_all_at(bytes, 0)?;
    file.sync_all()
}

/// Makes the present file the previous one without a moment in which neither exists; where the
/// file system knows no links there is such a moment, and `load` then reads the copy.
fn keep_previous(path: &Path, backup: &Path) -> Result<(), StoreError> {
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

fn remove_if_present(path: &Path) -> Result<(), StoreError> {
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
        let state = State::new(root.path());
        assert_eq!(state.load(NAME, any).unwrap(), None);
        for content in [&b"one"[..], b"two", b"three"] {
            state.save(NAME, content).unwrap();
        }
        assert_eq!(state.load(NAME, any).unwrap().unwrap(), b"three");
        let config = root.path().join("config");
        assert_eq!(fs::read(config.join("topics.json.bak")).unwrap(), b"two");
        assert_eq!(fs::read_dir(config).unwrap().count(), 2);
    }

    #[test]
    fn the_copy_is_read_when_the_file_is_missing_empty_or_unusable() {
        let root = tempfile::tempdir().unwrap();
        let state = State::new(root.path());
        state.save(NAME, b"old").unwrap();
        state.save(NAME, b"new").unwrap();
        let load = || state.load(NAME, |bytes| bytes != b"torn").unwrap();
        let path = root.path().join("config").join(NAME);
        fs::write(&path, b"torn").unwrap();
        assert_eq!(load().unwrap(), b"old");
        fs::write(&path, b"").unwrap();
        assert_eq!(load().unwrap(), b"old");
        fs::remove_file(&path).unwrap();
        assert_eq!(load().unwrap(), b"old");
    }

    #[test]
    fn names_cannot_leave_the_directory() {
        let root = tempfile::tempdir().unwrap();
        let state = State::new(root.path());
        for name in ["", ".", "..", "../lock", "a/b", ".hidden", "a\0b"] {
            assert!(state.save(name, b"x").is_err(), "{name:?}");
            assert!(state.load(name, any).is_err(), "{name:?}");
        }
    }
}
