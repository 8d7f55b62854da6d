//! Figures for broker runtime info, under RocketMQ's keys and in its notation.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::rates::Totals;
use super::store::Store;

type Pick = fn(&Totals) -> u64;

/// RocketMQ's rates and what each counts.
const RATES: [(&str, Pick); 5] = [
    ("putTps", |totals| totals.puts),
    ("getFoundTps", |totals| totals.found),
    ("getMissTps", |totals| totals.missed),
    ("getTotalTps", |totals| totals.found + totals.missed),
    ("getTransferedTps", |totals| totals.transferred),
];

pub(super) fn figures(store: &Store) -> BTreeMap<String, String> {
    let mut table = BTreeMap::new();
    let mut put = |key: &str, value: String| drop(table.insert(key.to_owned(), value));
    let (start, end) = (store.log.min_offset(), store.log.max_offset());
    put("commitLogMinOffset", start.to_string());
    put("commitLogMaxOffset", end.to_string());
    let earliest_ms = store
        .store_time_range()
        .map_or(-1, |(first_ms, _)| first_ms);
    put("earliestMessageTimeStamp", earliest_ms.to_string());
    let deleted = store.cleaner.total();
    put("deletedLogFiles", deleted.log_files.to_string());
    put("deletedQueueFiles", deleted.queue_files.to_string());
    put("deletedIndexFiles", deleted.index_files.to_string());
    let progress = store.dispatcher.progress();
    put(
        "dispatchBehindBytes",
        end.saturating_sub(progress.dispatched()).to_string(),
    );
    put("dispatchSkippedRecords", progress.skipped().to_string());
    put("healedDamages", store.healed.to_string());
    let unflushed = end.saturating_sub(store.puts.flusher.acks.flushed());
    put("remainHowManyDataToFlush", format!("{unflushed} B"));
    put("pageCacheLockTimeMills", store.lock_held_ms().to_string());
    let path = store.root.join("commitlog");
    let of_path = format!("commitLogDiskRatio_{}", path.display());
    let [log, queues] = store.upkeep.space.used_percent();
    let ratios = [
        (of_path.as_str(), log),
        ("commitLogDiskRatio", log),
        ("consumeQueueDiskRatio", queues),
    ];
    for (key, percent) in ratios {
        if let Some(percent) = percent {
            put(key, format!("{}.{:02}", percent / 100, percent % 100));
        }
    }
    let counters = &store.puts.counters;
    let messages = counters.messages();
    let bytes = counters.bytes.load(Ordering::Relaxed);
    put("putMessageTimesTotal", messages.to_string());
    put("putMessageSizeTotal", bytes.to_string());
    put(
        "putMessageFailedTimes",
        counters.failures.load(Ordering::Relaxed).to_string(),
    );
    put(
        "putMessageAverageSize",
        (bytes as f64 / messages.max(1) as f64).to_string(),
    );
    let now_ms = store.upkeep.clock.monotonic_ms();
    let totals = store.upkeep.rates.totals(messages);
    for (key, pick) in RATES {
        put(key, store.upkeep.rates.text(now_ms, totals, pick));
    }
    put("msgPutTotalTodayNow", messages.to_string());
    put("msgGetTotalTodayNow", totals.transferred.to_string());
    for (level, (offset, max_offset)) in (1..).zip(store.upkeep.delay.progress()) {
        if max_offset > 0 {
            put(
                &format!("scheduleMessageOffset_{level}"),
                format!("{offset},{max_offset}"),
            );
        }
    }
    table
}
