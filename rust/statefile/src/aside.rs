//! Unusable parts of state files, kept in `mqstack/quarantine`: single entries, and whole files
//! that a better copy replaced.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::directories::{create_directory, sync_directory};
use crate::error::{FileError, io_error};
use mq_log::fs;

/// Most bytes kept of the entries of one state file; the oldest are dropped first.
const BYTES_MAX: usize = 1 << 20;
/// Most bytes kept of one entry.
const ENTRY_BYTES_MAX: usize = 64 << 10;
/// Most entries that are logged one by one; the others are only counted.
const LOGGED_MAX: usize = 100;

/// An entry of a state file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aside {
    /// Its name in the file.
    pub name: String,
    /// Why it cannot be used.
    pub reason: String,
    /// Its text.
    pub entry: String,
}

impl Aside {
    fn line(&self) -> String {
        let entry = cut(&self.entry, ENTRY_BYTES_MAX);
        let row = json!({"name": self.name, "reason": self.reason, "entry": entry});
        row.to_string()
    }
}

/// Logs unusable entries, and keeps them in `{directory}/{file}.entries.jsonl`.
pub fn keep(directory: &Path, file: &str, entries: &[Aside]) -> Result<(), FileError> {
    for aside in entries.iter().take(LOGGED_MAX) {
        let Aside {
            name,
            reason,
            entry,
        } = aside;
        tracing::error!(
            "{file}: {name} is set aside ({reason}): {}",
            cut(entry, 2_000)
        );
    }
    if entries.len() > LOGGED_MAX {
        let more = entries.len() - LOGGED_MAX;
        tracing::error!("{file}: {more} more entries are set aside");
    }
    if entries.is_empty() {
        return Ok(());
    }
    create_directory(directory)?;
    let path = entries_path(directory, file);
    let before = match fs::read_own(&path, 2 * BYTES_MAX as u64) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(io_error(&path)(error)),
    };
    // A repeated start finds the same entries again.
    let mut lines: Vec<String> = before.lines().map(str::to_owned).collect();
    let known: std::collections::HashSet<String> = lines.iter().cloned().collect();
    lines.extend(
        entries
            .iter()
            .map(Aside::line)
            .filter(|line| !known.contains(line)),
    );
    let mut text = String::new();
    let mut bytes = 0;
    let fits = |line: &&String| {
        bytes += line.len() + 1;
        bytes <= BYTES_MAX
    };
    let kept: Vec<&String> = lines.iter().rev().take_while(fits).collect();
    for line in kept.iter().rev() {
        text.push_str(line);
        text.push('\n');
    }
    replace(directory, &path, text.as_bytes())
}

/// The file with the unusable entries of a state file.
pub fn entries_path(directory: &Path, file: &str) -> PathBuf {
    directory.join(format!("{file}.entries.jsonl"))
}

fn replace(directory: &Path, path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let temporary = path.with_extension("jsonl.tmp");
    let file = fs::create_own(&temporary).map_err(io_error(&temporary))?;
    file.write_all_at(bytes, 0)
        .and_then(|()| file.sync_all())
        .map_err(io_error(&temporary))?;
    fs::rename(&temporary, path).map_err(io_error(path))?;
    sync_directory(directory)
}

/// The longest prefix of whole characters with at most `bytes_max` bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aside(name: &str, entry: String) -> Aside {
        Aside {
            name: name.to_owned(),
            reason: "bad".to_owned(),
            entry,
        }
    }

    #[test]
    fn entries_are_kept_once_and_the_oldest_are_dropped_first() {
        let root = tempfile::tempdir().unwrap();
        let one = [aside("a", "1".to_owned())];
        keep(root.path(), "topics.json", &one).unwrap();
        keep(root.path(), "topics.json", &one).unwrap();
        let path = entries_path(root.path(), "topics.json");
        let line = "{\"entry\":\"1\",\"name\":\"a\",\"reason\":\"bad\"}\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), line);
        let many: Vec<Aside> = (0..40)
            .map(|number| aside(&format!("b{number}"), "ä".repeat(60 << 10)))
            .collect();
        keep(root.path(), "topics.json", &many).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.len() <= BYTES_MAX, "{}", text.len());
        assert!(text.lines().last().unwrap().contains("\"b39\""));
        assert!(!text.contains("\"a\""));
    }
}
