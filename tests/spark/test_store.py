"""Spark reads store directories: of a Java broker, of ours, and of one that is damaged."""

import shutil
import threading
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
import mqstore
from mqcommon.message import encode_properties
from mqpipeline.spark.files import StoreDataSource, message_schema, wanted_schema
from mqpipeline.spark.files.options import DECLARED
from tests.common.golden import expected, extract

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
    frame = source(spark, topic="TopicTest", queues="0,2", tags="TagA || TagB").schema(schema)
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
    (warning,) = [text for text in caplog.messages if "skipped" in text]
    assert f"in 1 places, the first at offset {offset}" in warning


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


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A store with one log file, two topics and an index."""
    root = tmp_path_factory.mktemp("large") / "store"
    settings = mqstore.Settings(commit_log_file_bytes=8 << 20, min_free_bytes=0)
    properties = encode_properties({"KEYS": "order-1"})
    with mqstore.Store(root, settings, create=True) as store:
        for i in range(6_000):
            store.put("Wide" if i % 3 else "Thin", b"%d" % i, queue_id=i % 2, properties=properties)
    return root


def pieces(path, **options):
    """The ranges of a plan, and the offsets that each gives."""
    reader = StoreDataSource({"path": str(path), **options}).reader(message_schema())
    plan = reader.partitions()
    offsets = [
        [at for batch in reader.read(piece) for at in batch["commit_log_offset"].to_pylist()]
        for piece in plan
    ]
    return plan, offsets


def test_a_log_file_is_split_where_records_start(large):
    (whole,), (every,) = pieces(large)
    plan, offsets = pieces(large, minPartitions="5")
    assert (plan[0].start, plan[-1].end) == (whole.start, whole.end)
    assert [piece.end for piece in plan[:-1]] == [piece.start for piece in plan[1:]]
    assert [at for piece in offsets for at in piece] == every
    assert len(plan) == 5 and min(map(len, offsets)) > len(every) / 6
    assert [piece[0] for piece in offsets] == [piece.start for piece in plan]


def test_stores_of_several_brokers_are_read_at_once(spark, golden, large, tmp_path):
    for name, root in (("a", golden), ("b", large)):
        (tmp_path / name).symlink_to(root)
    frame = spark.read.format("rocketmq-store").load(str(tmp_path / "*"))
    counts = {
        Path(row.store).name: row["count"] for row in frame.groupBy("store").count().collect()
    }
    golden_rows = sum("topic" in line for line in expected("store"))
    assert counts == {"a": golden_rows, "b": 6_000}
    named = spark.read.format("rocketmq-store").load([str(golden), str(large)])
    assert named.filter("topic = 'Thin'").count() == 2_000
    one = spark.read.format("rocketmq-store").schema("store string").load(str(large))
    assert one.distinct().collect() == [(str(large),)]


def test_entries_of_queues_lead_to_their_records(spark, large):
    entries = source(spark, table="consumequeue", topic="Wide").load(str(large))
    records = source(spark, topic="Wide").load(str(large))
    both = entries.alias("e").join(
        records.alias("r"), entries.physical_offset == records.commit_log_offset
    )
    agree = "e.queue_id = r.queue_id and e.queue_offset = r.queue_offset and e.size = r.store_size"
    assert entries.count() == 4_000 == both.filter(agree).count()
    assert not entries.filter("is_hole").count()
    assert source(spark, table="consumequeue", queues="1").load(str(large)).count() == 3_000


def test_entries_of_the_index_lead_to_their_records(spark, large):
    entries = source(spark, table="index").load(str(large))
    records = source(spark).load(str(large))
    late = "abs(unix_micros(store_timestamp_of_entry) - unix_micros(store_timestamp)) >= 1000000"
    entries = entries.withColumnRenamed("store_timestamp", "store_timestamp_of_entry")
    joined = entries.join(records, entries.physical_offset == records.commit_log_offset)
    assert joined.count() == entries.count() == 6_000
    assert joined.filter(late).count() == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"table": "log"}, "messages, consumequeue, index"),
        ({"table": "index", "topic": "T"}, "topic does not apply to table=index"),
        ({"table": "consumequeue", "tags": "A"}, "tags does not apply"),
        ({"minPartitions": "0"}, "from 1 to"),
        ({"failOnDataLoss": "no"}, "give true or false"),
        ({"path": "/none/of/*/these"}, "no directory matches"),
        ({"paths": '["a", "b"]', "endingOffset": "3"}, "load one path"),
        ({"topics": "x"}, "did you mean topic"),
        ({"path": ""}, "the path of the store is missing"),
    ],
)
def test_options_that_cannot_be_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        StoreDataSource({"path": "store", **options}).reader(message_schema())


def test_the_documentation_shows_every_option_as_it_is_declared():
    rows = [
        f"| {', '.join(f'`{name}`' for name in option.names)} | "
        f"{option.meaning.replace('|', chr(92) + '|')} | {option.shown} |"
        for option in DECLARED
    ]
    shown = (Path(__file__).parents[2] / "docs" / "spark.md").read_text().splitlines()
    start = shown.index("| option | meaning | default |")
    assert shown[start + 2 : start + 2 + len(rows)] == rows
    assert not shown[start + 2 + len(rows)].startswith("|")
