//! Our small JSON files in `{root}/mqstack`, with a checksum each, because a start acts on their
//! content.

use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::directories::{create_directory, sync_directory};
use crate::error::{FileError, io_error};
use mq_log::fs;

/// Largest file, bytes: enough for many thousands of queue names.
const BYTES_MAX: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
struct Sealed {
    content: Value,
    /// Checksum of the content with sorted keys and without spaces.
    crc32: u32,
}

impl Sealed {
    fn of(content: Value) -> Self {
        let crc32 = crc32fast::hash(content.to_string().as_bytes());
        Self { content, crc32 }
    }
}

/// Replaces the file at `path` and syncs it.
pub fn write(path: &Path, content: &impl Serialize) -> Result<(), FileError> {
    let failed = || io_error(path);
    let content = serde_json::to_value(content).map_err(io::Error::other);
    let text = serde_json::to_vec(&Sealed::of(content.map_err(failed())?));
    replace(path, &text.map_err(io::Error::other).map_err(failed())?)
}

/// Replaces a file of any content, durably.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let Some(directory) = path.parent() else {
        return Ok(());
    };
    create_directory(directory)?;
    let temporary = path.with_extension("tmp");
    let file = fs::create_own(&temporary).map_err(io_error(&temporary))?;
    file.write_all_at(bytes, 0)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(io_error(path))?;
    sync_directory(directory)
}

/// The content of the file at `path`; None if it is missing or damaged.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FileError> {
    let text = match fs::read_own(path, BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(path)(error)),
    };
    let content = parse(&text);
    if content.is_none() {
        tracing::warn!(path = %path.display(), "ignored a file that does not match its checksum");
    }
    Ok(content)
}

fn parse<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    let sealed: Sealed = serde_json::from_slice(text).ok()?;
    let crc32 = sealed.crc32;
    let sealed = Sealed::of(sealed.content);
    let content = (sealed.crc32 == crc32).then_some(sealed.content)?;
    serde_json::from_value(content).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn flipped_bits_and_truncation_are_noticed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("mqstack/closed.json");
        let content = BTreeMap::from([("logEnd".to_owned(), u64::MAX), ("queues".to_owned(), 7)]);
        assert_eq!(read::<Value>(&path).unwrap(), None);
        write(&path, &content).unwrap();
        assert_eq!(read(&path).unwrap(), Some(content.clone()));
        let bytes = std::fs::read(&path).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let found = parse::<BTreeMap<String, u64>>(&damaged);
            assert!(found.is_none(), "{}", String::from_utf8_lossy(&damaged));
        }
        for length in 0..bytes.len() {
            assert!(parse::<Value>(&bytes[..length]).is_none(), "{length}");
        }
    }
}
