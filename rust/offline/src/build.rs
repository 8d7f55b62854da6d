//! Builds consume queues, their extension and the index from a log, in a separate folder.

use std::path::Path;
use std::sync::Arc;

use super::copy::copy_tree;
use super::progress::{ProgressReporter, ReportedLog, Step};
use super::rebuild_options::RebuildOptions;
use super::scan::{Layout, Scan};
use mq_base::clock::{Clock, SystemClock};
use mq_format::consume_queue::QueueEntry;
use mq_format::delay_levels::DelayLevels;
use mq_log::Access;
use mq_store::StoreError;
use mq_store::inspect::Checkpoint;
use mq_store::inspect::ConsumeQueue;
use mq_store::inspect::ConsumeQueues;
use mq_store::inspect::Deletions;
use mq_store::inspect::Dispatch;
use mq_store::inspect::IndexWriter;
use mq_store::inspect::scan::{LogRead, LogScanner};
use mq_store::inspect::{IndexFiles, sizes_of_new_files};
use mq_store::{MultiDispatch, QueueExt, Settings};

/// The files that [`Site::build`] made.
pub(super) struct Built {
    pub queues: Arc<ConsumeQueues>,
    pub index: Arc<IndexFiles>,
    pub checkpoint: Checkpoint,
    /// Records in the log.
    pub records: u64,
    /// Queues that were copied because all their messages have expired.
    pub kept: Vec<(String, i32)>,
}

/// The folder and the settings for derived files.
pub(super) struct Site<'a, 't> {
    /// `consumequeue`, `consumequeue_ext`, `index` and `checkpoint` are created here.
    pub folder: &'a Path,
    /// The store that the files are for.
    pub root: &'a Path,
    pub settings: &'a Settings,
    pub reporter: &'a ProgressReporter<'t>,
}

/// The settings of a store: file sizes from its files, the rest from `options` and the defaults.
pub(super) fn settings_of(
    scan: &Scan,
    options: &RebuildOptions<'_>,
) -> Result<Settings, StoreError> {
    let Layout {
        consume_queue_file_bytes,
        ..
    } = scan.layout;
    let index = sizes_of_new_files(&scan.root, options.index)?;
    let defaults = Settings::default();
    let settings = Settings {
        consume_queue_file_bytes,
        index_slots: index.slots,
        index_entries: index.entries,
        queue_ext: QueueExt {
            enabled: scan.root.join("consumequeue_ext").is_dir(),
            file_bytes: scan.ext_file_bytes()?,
            ..defaults.queue_ext
        },
        // The properties of a record name its queues, so multi-dispatch is safe for every store.
        multi_dispatch: MultiDispatch {
            enabled: true,
            lmq_enabled: true,
            ..defaults.multi_dispatch
        },
        delay_levels: options
            .delay_levels
            .map_or(defaults.delay_levels.clone(), str::to_owned),
        ..defaults
    };
    levels(&settings)?;
    Ok(settings)
}

/// The delay levels in a store's settings.
pub(super) fn levels(settings: &Settings) -> Result<DelayLevels, StoreError> {
    let text = &settings.delay_levels;
    DelayLevels::parse(text).ok_or_else(|| StoreError::Setting {
        key: "messageDelayLevel",
        value: text.clone(),
        what: "delays with unit s, m, h or d, separated by spaces",
    })
}

impl Site<'_, '_> {
    /// Builds everything from the records of `log`, which ends at `end`. Keeps queues of `old` that
    /// have no record in the log any more. `repaired` lists the ranges whose records were lost.
    pub(super) fn build(
        &self,
        log: &impl LogRead,
        end: u64,
        old: &Scan,
        repaired: &[(u64, u64)],
    ) -> Result<Built, StoreError> {
        let settings = self.settings;
        let queues = Arc::new(self.open_queues()?);
        let (slots, entries) = (settings.index_slots, settings.index_entries);
        let index = IndexFiles::load(self.folder, slots, entries, Access::Append)?;
        let index = Arc::new(index);
        let clock: Arc<dyn Clock> = SystemClock::shared();
        let writer = IndexWriter::resume(Arc::clone(&index), clock)?;
        let derived = Dispatch::new(Arc::clone(&queues), Some(writer), levels(settings)?);
        let mut derived = derived.with_multi_dispatch(settings.multi_dispatch);
        let watched = ReportedLog {
            log,
            reporter: self.reporter,
            step: Step::Build,
            end,
        };
        let mut scanner = LogScanner::from(log.min_offset());
        derived.follow(&watched, &mut scanner, end, None)?;
        let records = derived.progress().records();
        drop(derived);
        let (old_queues, _) = old.load_queues()?;
        pad_lost_tails(&queues, &old_queues, repaired)?;
        let checkpoint = Checkpoint::open(self.folder)?;
        index.flush_all(&checkpoint)?;
        let log_start = log.min_offset().cast_signed();
        queues.flush()?;
        let kept = self.keep_expired(&queues, log_start, &old.root, &old_queues)?;
        let queues = if kept.is_empty() {
            queues
        } else {
            self.with_kept(&kept, end)?
        };
        queues.apply_deletions(end)?;
        queues.flush()?;
        Ok(Built {
            queues,
            index,
            checkpoint,
            records,
            kept,
        })
    }

    fn open_queues(&self) -> Result<ConsumeQueues, StoreError> {
        let mut queues = ConsumeQueues::open(self.folder, self.settings, false)?;
        queues.obey(Deletions::read(self.root)?);
        Ok(queues)
    }

    /// Copies the queues whose messages have all expired. Without them their offsets would start at
    /// 0 again, below the offsets that groups have committed.
    fn keep_expired(
        &self,
        queues: &ConsumeQueues,
        log_start: i64,
        old_root: &Path,
        old_queues: &ConsumeQueues,
    ) -> Result<Vec<(String, i32)>, StoreError> {
        let mut kept = Vec::new();
        for queue in old_queues.all() {
            let (topic, queue_id) = (queue.topic(), queue.queue_id());
            if queues.get(topic, queue_id).is_some() || !has_expired(&queue, log_start) {
                continue;
            }
            for of in ["consumequeue", "consumequeue_ext"] {
                let inner = Path::new(of).join(topic).join(queue_id.to_string());
                let (from, to) = (old_root.join(&inner), self.folder.join(&inner));
                if from.is_dir() {
                    copy_tree(&from, &to, self.reporter)?;
                }
            }
            kept.push((topic.to_owned(), queue_id));
        }
        kept.sort();
        Ok(kept)
    }

    /// Opens the queues again, with the copied ones truncated to the log.
    fn with_kept(
        &self,
        kept: &[(String, i32)],
        end: u64,
    ) -> Result<Arc<ConsumeQueues>, StoreError> {
        let queues = self.open_queues()?;
        for (topic, queue_id) in kept {
            if let Some(queue) = queues.get(topic, *queue_id) {
                queue.truncate(end.cast_signed())?;
                queue.clear_stale()?;
                queue.flush()?;
            }
        }
        Ok(Arc::new(queues))
    }
}

/// Pads a queue with holes up to its last lost record, so that the next message does not reuse the
/// queue offset of a message that was consumed.
fn pad_lost_tails(
    queues: &ConsumeQueues,
    old_queues: &ConsumeQueues,
    repaired: &[(u64, u64)],
) -> Result<(), StoreError> {
    let is_repaired = |entry: &QueueEntry| {
        let at = entry.physical_offset.cast_unsigned();
        repaired.iter().any(|(from, to)| (*from..*to).contains(&at))
    };
    for old in old_queues.all() {
        let (topic, queue_id) = (old.topic(), old.queue_id());
        let built = queues.get(topic, queue_id);
        let (first, end) = old.written();
        let from = built.as_ref().map_or(first, |built| built.max_offset());
        let is_lost = |offset: &i64| {
            let entry = old.stored_entry(*offset);
            entry.is_some_and(|entry| entry.is_hole() || is_repaired(&entry))
        };
        let lost = (from.max(first)..end).rev().find(is_lost);
        // A queue that has no record left is rebuilt only if damage took one of its records.
        // Otherwise `keep_expired` copies it or drops it as a whole.
        let is_wanted = built.is_some()
            || !repaired.is_empty()
                && (first..end).any(|offset| {
                    old.stored_entry(offset)
                        .is_some_and(|entry| !entry.is_hole() && is_repaired(&entry))
                });
        if let Some(lost) = lost.filter(|_| is_wanted)
            && let Some(queue) = queues.for_record(topic, queue_id)
        {
            queue.pad_to(lost + 1)?;
            queue.flush()?;
        }
    }
    Ok(())
}

/// Whether the first entry of a queue points before the start of the log: its record has expired.
fn has_expired(queue: &ConsumeQueue, log_start: i64) -> bool {
    let (first, end) = queue.written();
    let mut entries = (first..end).filter_map(|offset| queue.stored_entry(offset));
    let first = entries.find(|entry: &QueueEntry| !entry.is_hole());
    first.is_some_and(|entry| entry.physical_offset < log_start)
}
