//! A published table: rows by name in shards, so that readers rarely wait for a writer; or one row.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use thiserror::Error;

/// Shards of one table; a power of two.
const SHARDS: usize = 16;

/// A publication whose version is not higher than the table's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("version {offered} does not exceed version {current} of this table; publish rising ones")]
pub struct StaleVersion {
    /// The version that was published.
    pub offered: i64,
    /// The version the table has.
    pub current: i64,
}

/// One change: a name, and its row, or None to delete it.
pub type Change<R> = (String, Option<R>);

/// A published map. A read holds one shard's read lock during the lookup.
#[derive(Debug)]
pub struct Table<R> {
    version: Mutex<i64>,
    /// A name is shared with readers that keep it for long.
    shards: [RwLock<HashMap<Arc<str>, R>>; SHARDS],
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self {
            version: Mutex::new(i64::MIN),
            shards: std::array::from_fn(|_| RwLock::default()),
        }
    }
}

impl<R> Table<R> {
    /// Applies all changes at once, so that no reader sees a part of them. With `replace`, names
    /// without a change are deleted.
    pub fn publish(
        &self,
        version: i64,
        changes: Vec<Change<R>>,
        replace: bool,
    ) -> Result<(), StaleVersion> {
        let mut current = self.version.lock();
        if version <= *current {
            return Err(StaleVersion {
                offered: version,
                current: *current,
            });
        }
        // All shards are locked, always in this order, so that two publications cannot deadlock and
        // a reader finds either none or all of the changes.
        let mut shards = self.shards.each_ref().map(RwLock::write);
        if replace {
            shards.iter_mut().for_each(|shard| shard.clear());
        }
        for (name, row) in changes {
            let shard = &mut shards[shard_of(&name)];
            match row {
                Some(row) => shard.insert(name.into(), row),
                None => shard.remove(&*name),
            };
        }
        *current = version;
        Ok(())
    }

    /// Calls `read` with the row of `name`; None without a row. `read` must be short.
    pub fn with<T>(&self, name: &str, read: impl FnOnce(&R) -> T) -> Option<T> {
        self.shards[shard_of(name)].read().get(name).map(read)
    }

    /// Like `with`, and returns the table's own name, so that a caller that keeps it needs no copy.
    pub(crate) fn named<T>(&self, name: &str, read: impl FnOnce(&R) -> T) -> Option<(Arc<str>, T)> {
        let shard = self.shards[shard_of(name)].read();
        let (name, row) = shard.get_key_value(name)?;
        Some((Arc::clone(name), read(row)))
    }

    /// Returns a copy of the row.
    pub fn get(&self, name: &str) -> Option<R>
    where
        R: Clone,
    {
        self.with(name, R::clone)
    }
}

/// A published table of one row.
#[derive(Debug)]
pub struct Single<R> {
    /// Read without the lock.
    is_published: AtomicBool,
    row: RwLock<Option<(i64, Arc<R>)>>,
}

impl<R> Default for Single<R> {
    fn default() -> Self {
        Self {
            is_published: AtomicBool::new(false),
            row: RwLock::default(),
        }
    }
}

impl<R> Single<R> {
    /// Replaces the row.
    pub fn publish(&self, version: i64, row: R) -> Result<(), StaleVersion> {
        let mut current = self.row.write();
        if let Some((current, _)) = *current
            && version <= current
        {
            return Err(StaleVersion {
                offered: version,
                current,
            });
        }
        *current = Some((version, Arc::new(row)));
        self.is_published.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether there is a row.
    pub(crate) fn is_published(&self) -> bool {
        self.is_published.load(Ordering::Acquire)
    }

    /// Calls `read` with the row; None before one is published. `read` must be short.
    pub fn with<T>(&self, read: impl FnOnce(&R) -> T) -> Option<T> {
        self.row.read().as_ref().map(|(_, row)| read(row))
    }

    /// Returns the row; None before one is published.
    pub fn get(&self) -> Option<Arc<R>> {
        let current = self.row.read();
        current.as_ref().map(|(_, row)| Arc::clone(row))
    }
}

/// A cheap hash: names of one deployment usually differ in length or in their last bytes.
fn shard_of(name: &str) -> usize {
    let bytes = name.as_bytes();
    let tail = bytes.iter().rev().take(4);
    tail.fold(bytes.len(), |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(usize::from(*byte))
    }) % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishes_changes_deletes_and_replaces() {
        let table = Table::default();
        table
            .publish(1, vec![("a".into(), Some(1)), ("b".into(), Some(2))], false)
            .unwrap();
        assert_eq!((table.get("a"), table.get("b")), (Some(1), Some(2)));
        table.publish(2, vec![("a".into(), None)], false).unwrap();
        assert_eq!((table.get("a"), table.get("b")), (None, Some(2)));
        table.publish(3, vec![("c".into(), Some(3))], true).unwrap();
        assert_eq!((table.get("b"), table.get("c")), (None, Some(3)));
    }

    #[test]
    fn refuses_versions_that_do_not_rise() {
        let table = Table::<i32>::default();
        table.publish(5, Vec::new(), true).unwrap();
        let stale = StaleVersion {
            offered: 5,
            current: 5,
        };
        assert_eq!(
            table.publish(5, vec![("a".into(), Some(1))], false),
            Err(stale)
        );
        assert_eq!(table.get("a"), None);
    }
}
