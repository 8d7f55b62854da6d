"""Spark reads store directories: of a Java broker, of ours, and of one that is damaged."""

import shutil
import threading
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
import mqstore
from mqstore.message import encode_properties
from mqstore.spark import StoreDataSource, message_schema, wanted_schema
from tests.format.golden import expected, extract

FILE = 65_536


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return extract("store", tmp_path_factory.mktemp("golden"))


def source(spark, **options):
    return spark.read.format("rocketmq-store").options(**options)


def test_every_record_of_a_java_broker(spark, golden):
    lines = [line for line in expected("store") if "topic" in line]
    frame = source(spark).load(str(golden))
    assert frame.rdd.getNumPartitions() == 4  # one per log file
    rows = frame.orderBy("commit_log_offset").collect()
    assert [bytes(row.body).hex() for row in rows] == [line["bodyHex"] for line in lines]
    for column, name in {
        "topic": "topic",
        "queue_id": "queueId",
        "queue_offset": "queueOffset",
        "msg_id": "msgId",
        "properties": "properties",
        "sys_flag": "sysFlag",
        "born_host": "bornHost",
        "store_host": "storeHost",
        "store_size": "storeSize",
        "body_crc": "bodyCRC",
    }.items():
        assert [row[column] for row in rows] == [line[name] for line in lines], column
    assert [row.tags for row in rows] == [line["properties"].get("TAGS") for line in lines]
    assert [row.keys for row in rows] == [line["properties"].get("KEYS") for line in lines]
    millis = [int(row.store_timestamp.timestamp() * 1000 + 0.5) for row in rows]
    assert millis == [line["storeTimestamp"] for line in lines]


def test_options_and_a_subset_of_columns(spark, golden):
    lines = [line for line in expected("store") if line.get("topic") == "TopicTest"]
    schema = "queue_offset long, raw_properties string"
    frame = source(spark, topic="TopicTest", queues="0,2", tag="TagA || TagB").schema(schema)
    rows = frame.load(str(golden)).collect()
    wanted = [
        line for line in lines
        if line["queueId"] in (0, 2) and line["properties"].get("TAGS") in ("TagA", "TagB")
    ]  # fmt: skip
    assert sorted(row.raw_properties.encode().hex() for row in rows) == sorted(
        line["propertiesHex"] for line in wanted
    )
    assert source(spark, startingOffset="190", endingOffset="570").load(str(golden)).count() == 2
    assert source(spark, topic="None").load(str(golden)).count() == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffset": "5"}, "no record starts there"),
        ({"endingOffset": "x"}, "endingOffset"),
        ({"queues": "x"}, "queues"),
    ],
)
def test_bad_options_are_named(spark, golden, options, words):
    with pytest.raises(Exception, match=words):
        source(spark, **options).load(str(golden)).count()


@pytest.fixture
def damaged(golden, tmp_path):
    """The golden store with a flipped bit in a body, and where that record starts."""
    root = shutil.copytree(golden, tmp_path / "damaged")
    victim = [m for m in mqstore.open(root).records() if len(m.stored_body) > 10][20]
    path = root / "commitlog" / f"{victim.commit_log_offset // FILE * FILE:020}"
    log = bytearray(path.read_bytes())
    at = bytes(log).index(victim.stored_body, victim.commit_log_offset % FILE)
    log[at + 5] ^= 1
    path.write_bytes(log)
    return str(root), victim.commit_log_offset


def test_a_damaged_body_is_an_error_that_names_it(spark, damaged):
    root, offset = damaged
    with pytest.raises(Exception, match=f"unreadable at {offset}"):
        source(spark).load(root).count()


def test_a_damaged_body_is_left_out_with_a_warning(spark, golden, damaged, caplog):
    root, offset = damaged
    wanted = spark.read.format("rocketmq-store").load(str(golden)).count() - 1
    frame = source(spark, failOnDataLoss="false").load(root)
    rows = frame.select("commit_log_offset").collect()
    assert len(rows) == wanted and offset not in [row.commit_log_offset for row in rows]
    schema = wanted_schema(message_schema())
    reader = StoreDataSource({"path": root, "failOnDataLoss": "false"}).reader(message_schema())
    batches = [batch for piece in reader.partitions() for batch in reader.read(piece)]
    assert sum(batch.num_rows for batch in batches) == wanted
    assert batches[0].schema == schema
    (warning,) = [text for text in caplog.messages if "left out" in text]
    assert f"in 1 places were left out, first at offset {offset}" in warning


def test_a_damaged_size_does_not_end_the_rest(spark, golden, damaged):
    root, _ = damaged
    last = list(mqstore.open(root).records())[-3]
    path = Path(root) / "commitlog" / f"{last.commit_log_offset // FILE * FILE:020}"
    log = bytearray(path.read_bytes())
    log[last.commit_log_offset % FILE] ^= 1
    path.write_bytes(log)
    with pytest.raises(Exception, match="unreadable at"):
        source(spark).load(root).count()
    wanted = source(spark).load(str(golden)).count() - 2
    assert source(spark, failOnDataLoss="false").load(root).count() == wanted


def test_a_store_in_use_is_a_snapshot(spark, tmp_path):
    properties = encode_properties({"TAGS": "TagA"})
    settings = mqstore.Settings(commit_log_file_bytes=1 << 20, min_free_bytes=0)
    with mqstore.Store(tmp_path / "store", settings, create=True) as store:
        for i in range(20_000):
            store.put("Live", b"row %d" % i, queue_id=i % 4, properties=properties)
        tick = threading.Event()
        while store.max_offset("Live", 3) < 5000:  # dispatch follows the log
            assert not tick.wait(0.01)
        frame = source(spark, topic="Live").load(str(tmp_path / "store"))
        assert frame.count() == 20_000
        store.put("Live", b"later")
        assert frame.count() == 20_000  # planned before
        counts = {row.queue_id: row["count"] for row in frame.groupBy("queue_id").count().collect()}
        assert counts == dict.fromkeys(range(4), 5000)
    fresh = source(spark, topic="Live").load(str(tmp_path / "store"))
    assert fresh.count() == 20_001
