//! The cost of one record or entry: checksum, encoding, parsing, hashing.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mq_format::consume_queue::QueueEntry;
use mq_format::filter::Sql;
use mq_format::index::key_hash;
use mq_format::message::{CheckCrc, RecordView, Version, body_crc};

const UNITS: u64 = 10_000;
/// Properties as a client sends them; the two that the filter needs are among others.
const PROPERTIES: &[u8] = b"a\x0117\x02KEYS\x01order-17\x02\
    UNIQ_KEY\x01C000020A12D04E0E2F2A68B4336C0000\x02region\x01us\x02WAIT\x01true\x02TAGS\x01TagA";

fn record(body: &[u8]) -> RecordView<'_> {
    let host = |text: &str| text.parse().expect("an address");
    RecordView {
        version: Version::V1,
        body_crc: body_crc(body),
        queue_id: 0,
        flag: 0,
        queue_offset: 7,
        physical_offset: 4096,
        sys_flag: 0,
        born_timestamp_ms: 1,
        born_host: host("127.0.0.1:50000"),
        store_timestamp_ms: 2,
        store_host: host("127.0.0.1:10911"),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        topic: "BenchmarkTest",
        properties: b"TAGS\x01TagA\x02UNIQ_KEY\x01C0A8",
    }
}

fn format(criterion: &mut Criterion) {
    let body = [b'x'; 1024];
    let mut group = criterion.benchmark_group("format");
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("crc32_1k", |bencher| {
        bencher.iter(|| body_crc(black_box(&body)));
    });
    group.throughput(Throughput::Elements(1));
    let mut encoded = Vec::new();
    group.bench_function("encode_1k", |bencher| {
        let view = record(&body);
        bencher.iter(|| {
            encoded.clear();
            black_box(&view).encode(&mut encoded);
        });
    });
    encoded.clear();
    record(&body).encode(&mut encoded);
    group.bench_function("parse_1k", |bencher| {
        bencher.iter(|| RecordView::parse(black_box(&encoded), CheckCrc::Yes).is_ok());
    });
    group.bench_function("key_hash", |bencher| {
        bencher.iter(|| {
            key_hash(
                black_box("BenchmarkTest"),
                black_box("C000020A48944E0E2F2A689C"),
            )
        });
    });
    group.bench_function("sql_filter", |bencher| {
        let sql = Sql::compile("a > 5 AND region IN ('eu', 'us')").expect("it is SQL92");
        bencher.iter(|| sql.matches(black_box(PROPERTIES)));
    });
    let unit = QueueEntry {
        physical_offset: 4096,
        size_bytes: 190,
        tags_code: 2_598_919,
    };
    let units: Vec<u8> = (0..UNITS).flat_map(|_| unit.encode()).collect();
    group.throughput(Throughput::Elements(UNITS));
    group.bench_function("decode_queue_units", |bencher| {
        bencher.iter(|| {
            let sizes = QueueEntry::decode_all(black_box(&units)).map(|unit| unit.size_bytes);
            sizes.map(i64::from).sum::<i64>()
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = format
}
criterion_main!(benches);
