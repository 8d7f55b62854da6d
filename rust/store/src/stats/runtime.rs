//! Figures for the broker's runtime info, with RocketMQ's keys and notation.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::rates::Totals;
use crate::store::Store;

type Pick = fn(&Totals) -> u64;

/// RocketMQ's rates and what they count.
const RATES: [(&str, Pick); 5] = [
    ("putTps", |totals| totals.puts),
    ("getFoundTps", |totals| totals.found),
    ("getMissTps", |totals| totals.missed),
    ("getTotalTps", |totals| totals.found + totals.missed),
    ("getTransferedTps", |totals| totals.transferred),
];

/// Figures by key.
#[derive(Default)]
struct Table(BTreeMap<String, String>);

impl Table {
    fn put(&mut self, key: &str, value: impl ToString) {
        self.0.insert(key.to_owned(), value.to_string());
    }
}

impl Store {
    /// Figures for `AdminBrokerProcessor.prepareRuntimeInfo`, with RocketMQ's keys.
    pub fn runtime(&self) -> BTreeMap<String, String> {
        figures(self)
    }
}

fn figures(store: &Store) -> BTreeMap<String, String> {
    let mut table = Table::default();
    log_figures(store, &mut table);
    disk_figures(store, &mut table);
    traffic_figures(store, &mut table);
    for (level, (offset, max_offset)) in (1..).zip(store.positions.delay.progress()) {
        if max_offset > 0 {
            let key = format!("scheduleMessageOffset_{level}");
            table.put(&key, format!("{offset},{max_offset}"));
        }
    }
    table.0
}

fn log_figures(store: &Store, table: &mut Table) {
    let (start, end) = (store.log.min_offset(), store.log.max_offset());
    table.put("commitLogMinOffset", start);
    table.put("commitLogMaxOffset", end);
    let range = store.store_time_range();
    let earliest_ms = range.map_or(-1, |(first_ms, _)| first_ms);
    table.put("earliestMessageTimeStamp", earliest_ms);
    let progress = store.dispatcher.progress();
    let behind = end.saturating_sub(progress.dispatched());
    table.put("dispatchBehindBytes", behind);
    // RocketMQ never sets this figure either, but tools expect it.
    table.put("dispatchMaxBuffer", 0);
    table.put("dispatchSkippedRecords", progress.skipped());
    table.put("repairedDamages", store.repaired);
    let damaged = store.reader.damaged_skipped();
    table.put("damagedRecordsSkipped", damaged);
    table.put("delayedMessagesDeleted", store.positions.delay.deleted());
    let repaired = store.reader.repairer.repaired();
    table.put("queueEntriesRepaired", repaired);
    let unflushed = end.saturating_sub(store.puts.flusher.acks.flushed());
    table.put("remainHowManyDataToFlush", readable(unflushed));
    table.put("pageCacheLockTimeMills", store.lock_held_ms());
}

fn disk_figures(store: &Store, table: &mut Table) {
    let deleted = store.cleaner.total();
    table.put("deletedLogFiles", deleted.log_files);
    table.put("deletedQueueFiles", deleted.queue_files);
    table.put("deletedIndexFiles", deleted.index_files);
    let path = store.root.join("commitlog");
    let of_path = format!("commitLogDiskRatio_{}", path.display());
    let [log, queues] = store.puts.flusher.space.used_percent();
    let ratios = [
        (of_path.as_str(), log),
        ("commitLogDiskRatio", log),
        ("consumeQueueDiskRatio", queues),
    ];
    for (key, percent) in ratios {
        if let Some(percent) = percent {
            // Java's notation of a double: 0.2, 1.0.
            table.put(key, format!("{:?}", percent as f64 / 100.0));
        }
    }
}

fn traffic_figures(store: &Store, table: &mut Table) {
    let counters = &store.puts.appender.counters;
    let messages = counters.messages();
    let bytes = counters.bytes();
    table.put("putMessageTimesTotal", messages);
    table.put("putMessageSizeTotal", bytes);
    let failures = store.puts.failures.load(Ordering::Relaxed);
    table.put("putMessageFailedTimes", failures);
    let average = bytes as f64 / messages.max(1) as f64;
    table.put("putMessageAverageSize", average);
    let now_ms = store.clock.monotonic_ms();
    let puts = store.put_latency.look(now_ms, messages);
    table.put("putMessageEntireTimeMax", puts.max_ms);
    table.put("putMessageDistributeTime", puts.text());
    table.put("putLatency99", format!("{:.2}", puts.percentile(0.99)));
    table.put("putLatency999", format!("{:.2}", puts.percentile(0.999)));
    let gets = store.get_latency.look(now_ms, 0);
    table.put("getMessageEntireTimeMax", gets.max_ms);
    let totals = store.rates.totals(messages);
    for (key, pick) in RATES {
        table.put(key, store.rates.text(now_ms, totals, pick));
    }
    table.put("msgPutTotalTodayNow", messages);
    table.put("msgGetTotalTodayNow", totals.transferred);
}

/// Bytes in RocketMQ's notation: "0 B", "5.6 KiB".
fn readable(bytes: u64) -> String {
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64;
    let mut unit = "";
    for larger in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
        if size < 1_024.0 {
            break;
        }
        (size, unit) = (size / 1_024.0, larger);
    }
    format!("{size:.1} {unit}B")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::tests::store_rig::rig;
    use mq_testing::stores::lines;

    /// Figures that the broker adds.
    const BROKERS: [&str; 18] = [
        "EndTransactionQueueSize",
        "EndTransactionThreadPoolQueueCapacity",
        "bootTimestamp",
        "brokerVersion",
        "brokerVersionDesc",
        "commitLogDirCapacity",
        "msgGetTotalTodayMorning",
        "msgGetTotalYesterdayMorning",
        "msgPutTotalTodayMorning",
        "msgPutTotalYesterdayMorning",
        "pullThreadPoolQueueCapacity",
        "queryThreadPoolQueueCapacity",
        "remainTransientStoreBufferNumbs",
        "runtime",
        "sendThreadPoolQueueCapacity",
        "sendThreadPoolQueueSize",
        "startAcceptSendRequestTimeStamp",
        "pullThreadPoolQueueSize",
    ];

    #[test]
    fn all_figures_of_rocketmq_exist() {
        let recorded = lines("wire/raw-broker.jsonl.gz")
            .into_iter()
            .find(|line| line["reply_to"] == 28)
            .and_then(|line| Some(line["body_text"].as_str()?.to_owned()))
            .unwrap();
        let recorded: Value = serde_json::from_str(&recorded).unwrap();
        let is_ours = |key: &&String| {
            let is_brokers = BROKERS.contains(&key.as_str())
                || key.ends_with("HeadWaitTimeMills")
                || key.starts_with("queryThreadPool");
            // Keys with a path or a level differ.
            !is_brokers && !key.contains('_')
        };
        let table = recorded["table"].as_object().unwrap();
        let expected: BTreeSet<&String> = table.keys().filter(is_ours).collect();
        assert!(expected.len() >= 20, "{expected:?}");
        let rig = rig();
        rig.put("T", 1);
        let figures = rig.store.runtime();
        let missing: Vec<_> = expected
            .iter()
            .filter(|key| !figures.contains_key(**key))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
        for (key, value) in table.iter().filter(|(key, _)| figures.contains_key(*key)) {
            let words = |text: &str| text.split(' ').count();
            let (java, ours) = (value.as_str().unwrap(), &figures[key]);
            assert_eq!(words(ours), words(java), "{key}: {ours}, {java}");
        }
    }

    #[test]
    fn bytes_are_written_as_rocketmq_does() {
        let written = [0, 1_023, 1_024, 5_734, 5 << 20, 3 << 40].map(readable);
        let expected = ["0 B", "1023 B", "1.0 KiB", "5.6 KiB", "5.0 MiB", "3.0 TiB"];
        assert_eq!(written, expected);
    }
}
