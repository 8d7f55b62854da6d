//! Location of a store's log: `commitlog` in its directory, or another one (`storePathCommitLog`).
//! Then `commitlog` is a link, so that tools that only know the store's directory find the log.

use std::path::{Path, PathBuf};

use crate::files::{create_directory, io_error, list, offset_files, sync_directory};
use crate::types::StoreError;
use mq_log::fs;

/// Name of the log in a store's directory.
pub(crate) const COMMIT_LOG: &str = "commitlog";
/// Name of our directory in a store, or beside the log if that is on another mount.
const WORKSHOP: &str = "mqstack";

/// Links `{root}/commitlog` to `elsewhere`, which is created if missing. Refuses to leave a log
/// behind, because a new log would begin at 0, and so would every queue.
pub(crate) fn link(root: &Path, elsewhere: &Path) -> Result<(), StoreError> {
    let place = root.join(COMMIT_LOG);
    if fs::is_same(&place, elsewhere) {
        return Ok(());
    }
    let is_log = |path: &Path| offset_files(path).map(|files| !files.is_empty());
    let wanted = is_log(elsewhere)?;
    if is_log(&place)? {
        let (place, elsewhere) = (place.display(), elsewhere.display());
        let what = match wanted {
            true => {
                format!("there are files in {place} and in {elsewhere}: move away the wrong ones")
            }
            false => format!("the log is in {place}: move its files to {elsewhere}"),
        };
        return Err(refused(
            root,
            &format!("{what}, or correct storePathCommitLog"),
        ));
    }
    if !wanted && !list(&root.join("consumequeue"))?.is_empty() {
        let what = format!(
            "there are consume queues, but no log in {}: mount it, or correct",
            elsewhere.display()
        );
        return Err(refused(root, &format!("{what} storePathCommitLog")));
    }
    create_directory(elsewhere)?;
    fs::remove_place(&place).map_err(io_error(&place))?;
    fs::symlink(elsewhere, &place).map_err(io_error(&place))?;
    sync_directory(root)?;
    tracing::info!(link = %place.display(), log = %elsewhere.display(), "the log is elsewhere");
    Ok(())
}

/// Our directory from which files can be renamed into the log: in the store's directory, beside the
/// log, or in the log's directory if that is a mount of its own.
pub(crate) fn workshop(root: &Path) -> Result<PathBuf, StoreError> {
    let log = root.join(COMMIT_LOG);
    create_directory(&log)?;
    let real = fs::canonical(&log).map_err(io_error(&log))?;
    let beside = real.file_name().map(|name| {
        let name = format!("{}.{WORKSHOP}", name.to_string_lossy());
        real.with_file_name(name)
    });
    let mount = fs::mount_of(&real).map_err(io_error(&real))?;
    for place in [Some(root.join(WORKSHOP)), beside].into_iter().flatten() {
        let Some(parent) = place.parent() else {
            continue;
        };
        if fs::mount_of(parent).is_ok_and(|of_parent| of_parent == mount)
            && create_directory(&place).is_ok()
        {
            return Ok(place);
        }
    }
    Ok(real.join(WORKSHOP))
}

fn refused(root: &Path, what: &str) -> StoreError {
    StoreError::UnknownLayout {
        root: root.display().to_string(),
        what: what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use crate::tests::store_rig::{Rig, rig_with, settings};
    use crate::types::GetStatus;

    struct Elsewhere {
        _directory: tempfile::TempDir,
        log: PathBuf,
        rig: Rig,
    }

    fn elsewhere() -> Elsewhere {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("fast/log");
        let rig = rig_with(Settings {
            commit_log_path: Some(log.clone()),
            ..settings()
        });
        Elsewhere {
            _directory: directory,
            log,
            rig,
        }
    }

    fn names(path: &Path) -> Vec<String> {
        let mut names: Vec<_> = list(path)
            .unwrap()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        names.sort();
        names
    }

    fn refusal(rig: &Rig, path: &Path) -> String {
        link(rig.root.path(), path).unwrap_err().to_string()
    }

    #[test]
    fn a_log_elsewhere_is_written_read_and_found_again() {
        let Elsewhere {
            log,
            rig,
            _directory,
        } = elsewhere();
        rig.put("T", 3);
        let files = [
            "00000000000000000000",
            "00000000000000016384",
            "00000000000000032768",
        ];
        // The next file may be there already.
        let found = names(&log);
        assert_eq!(found[..3], files);
        let is_rocketmqs = |name: &String| name.parse::<u64>().is_ok();
        assert!(found.iter().all(is_rocketmqs), "{found:?}");
        let place = rig.root.path().join(COMMIT_LOG);
        assert_eq!(fs::canonical(&place).unwrap(), fs::canonical(&log).unwrap());
        let mut rig = rig.reopen(false);
        assert_eq!(rig.get(2), (GetStatus::Found, 3));
        rig.put("T", 1);
        assert_eq!(rig.log_files(), 4);
        // Without the setting, the link leads to the log.
        rig.settings.commit_log_path = None;
        let rig = rig.reopen(false);
        assert_eq!((rig.bounds(), rig.get(3)), ((0, 4), (GetStatus::Found, 4)));
        assert_eq!(rig.log_files(), 4);
    }

    #[test]
    fn a_log_is_never_left_behind() {
        let Elsewhere {
            log,
            rig,
            _directory,
        } = elsewhere();
        rig.put("T", 1);
        rig.store.close().unwrap();
        let other = log.with_file_name("other");
        let why = refusal(&rig, &other);
        assert!(
            why.contains("move its files to") && why.contains("/fast/other"),
            "{why}"
        );
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("00000000000000000000"), b"x").unwrap();
        assert!(refusal(&rig, &other).contains("there are files in"));
        // Follow the advice.
        std::fs::remove_dir_all(&other).unwrap();
        std::fs::rename(&log, &other).unwrap();
        link(rig.root.path(), &other).unwrap();
        let mut rig = rig;
        rig.settings.commit_log_path = Some(other);
        assert_eq!(rig.reopen(false).get(0), (GetStatus::Found, 1));
    }

    #[test]
    fn queues_without_a_log_are_refused() {
        let Elsewhere {
            log,
            rig,
            _directory,
        } = elsewhere();
        rig.put("T", 1);
        rig.store.close().unwrap();
        std::fs::remove_dir_all(&log).unwrap();
        let why = refusal(&rig, &log);
        assert!(
            why.contains("there are consume queues, but no log in"),
            "{why}"
        );
    }

    #[test]
    fn an_empty_directory_is_replaced_by_the_link() {
        let (root, log) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let place = root.path().join(COMMIT_LOG);
        std::fs::create_dir(&place).unwrap();
        link(root.path(), log.path()).unwrap();
        assert!(fs::is_same(&place, log.path()));
        link(root.path(), log.path()).unwrap();
        link(root.path(), &place).unwrap();
    }
}
