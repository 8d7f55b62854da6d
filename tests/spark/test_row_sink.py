"""The native writer of rows: its bytes, the stored messages, and its errors."""

from __future__ import annotations

import pickle
import re
import threading
import time

import pytest

pytest.importorskip("pyspark")
import pyarrow as pa

import mqserver
from mqcommon._core import RowWriter
from mqcommon.message import SYSTEM_PROPERTIES, Message, encode_batch
from mqcommon.names import java_hash
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.row_sink import SINKS_MAX, RowSink, Sinks, WriteError
from mqpipeline.spark.topics.write_columns import column_buffers
from tests.certificates import Authority
from tests.spark.recording import RecordingBroker
from tests.waiting import until

ID = re.compile(rb"UNIQ_KEY\x01[0-9A-F]{32}")
TEXTS = pa.map_(pa.string(), pa.string())


@pytest.fixture(scope="module")
def mq():
    with mqserver.Standalone() as mq:
        yield mq


def bodies(values):
    return pa.record_batch({"body": pa.array(values, pa.binary())})


def sink(mq, **options):
    return RowSink(Options.parse({"namesrv": mq.namesrv, **options}, "write"))


def write(mq, *batches, **options):
    """Write as one task; returns the number of rows."""
    written = sink(mq, **options)
    try:
        written.start("job/0/")
        for batch in batches:
            written.write(batch)
        return written.finish()
    finally:
        written.close()


def test_a_worker_keeps_a_bounded_number_of_sinks(mq):
    def options(group, secret="s" * 8):
        given = {"namesrv": mq.namesrv, "topic": "T", "producerGroup": group}
        return Options.parse({**given, "accessKey": "user", "secretKey": secret}, "write")

    sinks = Sinks()
    try:
        first = sinks.sink(options("first"))
        assert sinks.sink(options("first")) is first
        assert sinks.sink(options("first", "another secret")) is not first
        assert b"s" * 8 not in pickle.dumps([*vars(sinks)["_open"]])
        kept = [sinks.sink(options(f"group_{number}")) for number in range(SINKS_MAX)]
        assert len({*map(id, kept)}) == SINKS_MAX
        assert sinks.sink(options("first")) is not first, "it was used longest ago"
    finally:
        sinks.close()
    assert sinks.sink(options("first")) is not first
    sinks.close()


def many(count):
    """Rows with every column, and the messages that they are."""
    batch = pa.record_batch(
        {
            "body": pa.array([b"body %d" % i for i in range(count)], pa.binary()),
            "tags": pa.array([f"Tag{i % 3}" if i % 4 else None for i in range(count)]),
            "keys": pa.array([["k", f"ü{i}"] if i % 2 else [] for i in range(count)]),
            "properties": pa.array(
                [
                    [("color", "red"), ("no", ""), ("TAGS", "x"), ("n", None), ("i", str(i))]
                    for i in range(count)
                ],
                TEXTS,
            ),
            "flag": pa.array([i - 2 if i % 5 else None for i in range(count)], pa.int32()),
        }
    )
    messages = []
    for i in range(count):
        message = Message(
            "T",
            b"body %d" % i,
            tags=f"Tag{i % 3}" if i % 4 else None,
            keys=["k", f"ü{i}"] if i % 2 else None,
            flag=i - 2 if i % 5 else 0,
            properties={"color": "red", "i": str(i)},
        )
        message.properties["sparkRowId"] = f"job/0/{i}"
        messages.append(message)
    return batch, messages


def recorded(batch, **plan):
    """The frames of a task with these rows."""
    plan = {
        "group": "G",
        "topic": "T",
        "request_timeout": 10.0,
        "retry_timeout": 10.0,
        "message_bytes_max": 4 << 20,
        "rate": None,
        "reserved": SYSTEM_PROPERTIES,
        "first_queue": 0,
        **plan,
    }
    with RecordingBroker() as broker:
        writer = RowWriter({}, plan, lambda _topic, _again: [("broker-a", broker.address, 3)])
        writer.start("job/0/", "0123456789ABCDEF0123", 0)
        writer.write(batch.num_rows, column_buffers(batch))
        writer.finish()
        writer.close(1.0)
        return broker.frames


def test_a_batch_equals_the_python_producers_bytes():
    batch, messages = many(50)
    (frame,) = recorded(batch)
    wanted, _ = encode_batch(messages, lambda message: pytest.fail(repr(message)))
    assert ID.sub(b"", frame.body) == ID.sub(b"", wanted)
    assert frame.code == 320
    assert len(set(ID.findall(frame.body))) == 50
    fields = dict(frame.fields)
    assert abs(int(fields.pop("g")) / 1000 - time.time()) < 60
    wanted = "a=G b=T c=TBW102 d=4 e=3 f=0 h=0 i=WAIT\x01true j=0 k=false m=true n=broker-a"
    assert fields == dict(pair.split("=") for pair in wanted.split())


@pytest.mark.parametrize("place", [(0, 20), (7, 13), (8, 1), (19, 1)])
def test_slices_and_large_types_are_read_alike(place):
    batch, _ = many(20)
    types = [pa.large_binary(), pa.large_string(), pa.large_list(pa.large_string()), TEXTS]
    names = batch.schema.names
    large = batch.cast(pa.schema(zip(names, [*types, pa.int32()], strict=True)))
    # A copy without offsets before the first row.
    plain = pa.RecordBatch.from_pylist(batch.slice(*place).to_pylist(), schema=batch.schema)
    (wanted,), (sliced,), (cast,) = map(recorded, (plain, batch.slice(*place), large.slice(*place)))
    assert ID.sub(b"", sliced.body) == ID.sub(b"", wanted.body) == ID.sub(b"", cast.body)


def test_text_bodies_and_keys_with_spaces():
    rows = {"body": ["Grüße", "x"], "keys": [" a  b ", None], "topic": [None, "Other"]}
    one, other = recorded(pa.record_batch(rows))
    assert (one.fields["b"], other.fields["b"]) == ("T", "Other")
    assert "Grüße".encode() in one.body and b"KEYS\x01a b\x02" in one.body
    assert b"KEYS" not in other.body


def test_rows_that_other_clients_wrote_are_written_again(mq):
    topic = mq.topic("SinkForeign")
    properties = [("blank", " "), ("", "x"), ("color", "red"), ("DELAY", "3"), ("BUYER_ID", "1")]
    batch = pa.RecordBatch.from_pydict(
        {
            "body": [b"x"],
            "tags": ["A || B"],
            "keys": ["order-1  a\tb"],
            "properties": pa.array([properties], TEXTS),
        }
    )
    write(mq, batch, topic=topic)
    mq.wait_dispatched()
    (message,) = mq.messages(topic)
    assert (message.tags, message.keys) == ("A || B", ("order-1", "a\tb"))
    assert message.properties["blank"] == " "
    assert not {"DELAY", "BUYER_ID"} & set(message.properties)


def test_rows_are_stored_as_they_are(mq):
    topic = mq.topic("SinkRows")
    batch, messages = many(2500)
    assert write(mq, batch.slice(0, 1000), batch.slice(1000), topic=topic) == 2500
    mq.wait_dispatched()
    got = {message.body: message for message in mq.messages(topic)}
    assert len(got) == 2500
    for message in messages:
        stored = got[message.body]
        properties = {
            k: v for k, v in stored.properties.items() if k not in ("UNIQ_KEY", "CLUSTER")
        }
        assert (stored.flag, properties) == (message.flag, message.properties)
    assert len({message.msg_id for message in got.values()}) == 2500


def test_a_key_s_messages_are_in_order_in_the_queue_of_its_hash(mq):
    topic = mq.topic("SinkOrder", queues=4)
    keys = [f"order-{i % 7}" for i in range(20_000)]
    batch = pa.record_batch({"body": [str(i) for i in range(20_000)], "order_key": keys})
    assert write(mq, batch, topic=topic) == 20_000
    mq.wait_dispatched()
    seen: dict[str, list[int]] = {}
    for message in sorted(mq.messages(topic), key=lambda m: (m.queue_id, m.queue_offset)):
        key = keys[int(message.body)]
        assert message.queue_id == abs(java_hash(key)) % 4
        seen.setdefault(key, []).append(int(message.body))
    assert all(rows == sorted(rows) for rows in seen.values())
    assert sum(map(len, seen.values())) == 20_000


def test_a_hundred_topics_and_delayed_rows(mq):
    topics = [mq.topic(f"SinkMany{i}", queues=1) for i in range(100)]
    batch = pa.record_batch(
        {
            "topic": [topics[i % 100] for i in range(1000)],
            "body": [str(i) for i in range(1000)],
            "delay_level": pa.array([1 if i < 5 else 0 for i in range(1000)], pa.int32()),
        }
    )
    assert write(mq, batch) == 1000
    assert until(lambda: sum(len(mq.messages(topic)) for topic in topics) == 1000)
    for number, topic in enumerate(topics):
        rows = {int(message.body) for message in mq.messages(topic)}
        assert rows == set(range(number, 1000, 100))
    delayed = {m.body for m in mq.messages(topics[3]) if m.properties.get("DELAY") == "1"}
    assert delayed == {b"3"}


@pytest.mark.parametrize("when", ["between", "during"])
def test_a_broker_s_restart_is_waited_out(when):
    with mqserver.Standalone() as mq:
        topic = mq.topic("SinkRestart")
        written = sink(mq, topic=topic)
        written.start("job/0/")
        restart = threading.Thread(target=mq.restart)
        for number in range(40):
            if number == 10:
                restart.start()
                if when == "between":
                    restart.join()
            written.write(bodies([b"%d %d" % (number, i) + bytes(1000) for i in range(500)]))
        assert written.finish() == 20_000
        written.close()
        restart.join()
        mq.wait_dispatched()
        found = {message.properties["sparkRowId"] for message in mq.messages(topic)}
        assert len(found) == 20_000


def test_a_rate_is_that_of_a_task(mq):
    topic = mq.topic("SinkRate")
    begun = time.monotonic()
    write(mq, bodies([b"x"] * 500), topic=topic, maxRate="400")
    assert time.monotonic() - begun > 0.9


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([b"x", None], r"row 1: its body is null; brokers have acknowledged 0 of the 1 rows"),
        ([b"x", b""], r"row 1: its body is empty"),
        ([bytes(5 << 20)], r"row 0: the message has 52\d+ bytes, and the limit is 4194304; raise"),
    ],
)
def test_a_row_that_cannot_be_sent_is_named(mq, values, words):
    with pytest.raises(WriteError, match=words):
        write(mq, bodies(values), topic=mq.topic("SinkBad"))


def test_large_rows_are_written_where_the_broker_takes_them():
    with mqserver.Standalone(settings={"maxMessageSize": str(12 << 20)}) as mq:
        topic = mq.topic("SinkLarge")
        batch = bodies([bytes([i]) * (10 << 20) for i in range(3)])
        assert write(mq, batch, topic=topic, maxMessageSize=str(12 << 20)) == 3
        mq.wait_dispatched()
        assert {m.body[0] for m in mq.messages(topic)} == {0, 1, 2}
        assert {len(m.body) for m in mq.messages(topic)} == {10 << 20}


def test_a_broker_s_refusal_is_said_with_what_is_stored():
    with mqserver.Standalone(settings={"maxMessageSize": "100000"}) as mq:
        topic = mq.topic("SinkRefused")
        written = sink(mq, topic=topic)
        written.start("job/0/")
        written.write(bodies([b"fine"]))
        words = r"acknowledged \d of the 2 rows .* row [01],"
        with pytest.raises(WriteError, match=words) as caught:
            written.write(bodies([bytes(200_000)]))
            written.finish()
        written.close()
        assert "MESSAGE_ILLEGAL" in str(caught.value)


def test_topics_that_cannot_be_written_are_named(mq):
    with pytest.raises(ValueError, match=r"topic 'a b' may hold only letters"):
        write(mq, bodies([b"x"]), topic="a b")
    with pytest.raises(WriteError, match="reserved by RocketMQ"):
        write(mq, bodies([b"x"]), topic="SCHEDULE_TOPIC_XXXX")
    strict = mqserver.Standalone(settings={"autoCreateTopicEnable": "false"})
    with strict as mq, pytest.raises(WriteError, match="no route for topic 'Missing'"):
        write(mq, bodies([b"x"]), topic="Missing")


def test_a_broker_that_is_away_is_named_with_its_address():
    with mqserver.Standalone() as mq:
        topic = mq.topic("SinkAway")
        written = sink(mq, topic=topic, retryTimeout="0.5")
        written.start("job/0/")
        written.write(bodies([b"x"]))
        assert written.finish() == 1
        address = mq.broker_address
        mq.stop()
        written.start("job/1/")
        with pytest.raises(WriteError, match="acknowledged 0 of the 1 rows") as caught:
            written.write(bodies([b"x"]))
            written.finish()
        written.close()
    assert address in str(caught.value) or "no NameServer answers" in str(caught.value)


def test_a_sink_writes_task_after_task_and_ids_differ(mq):
    topic = mq.topic("SinkTasks")
    written = sink(mq, topic=topic)
    for task in range(3):
        written.start(f"job/{task}/")
        written.write(bodies([b"%d" % task] * 10))
        assert written.finish() == 10
    written.close()
    written.close()
    mq.wait_dispatched()
    got = mq.messages(topic)
    ids = {message.properties["sparkRowId"] for message in got}
    assert ids == {f"job/{task}/{row}" for task in range(3) for row in range(10)}
    assert len({message.msg_id for message in got}) == 30


def test_tls(tmp_path):
    authority = Authority(tmp_path)
    pair = authority.issue("server")
    names = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": pair.cert,
        "tls.server.keyPath": pair.key,
    }
    settings = {**names, "tls.client.trustCertPath": authority.ca}
    file = tmp_path / "tls.properties"
    file.write_text(f"tls.client.trustCertPath={authority.ca}\n")
    with mqserver.Standalone(settings=settings, namesrv_settings=names) as mq:
        topic = mq.topic("SinkSecured")
        assert write(mq, bodies([b"x"] * 3000), topic=topic, tlsConfig=str(file)) == 3000
        with pytest.raises(WriteError, match="if it takes only TLS"):
            write(mq, bodies([b"x"]), topic=topic, retryTimeout="0.1")
