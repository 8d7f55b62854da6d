"""topic -> lake: each message once, at whatever step the job dies."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from mqclient import Message, Producer
from mqpipeline.errors import BusyError, PipelineError, UsageError
from mqpipeline.jobs.bodies import Body
from mqpipeline.jobs.to_lake import plan_to_lake, to_lake
from mqpipeline.lake.storage import Lake
from mqpipeline.lake.transaction import opened
from mqpipeline.spark.topics.cluster import DataLossError

ROOT = Path(__file__).parent.parent.parent
STEPS = [("planned", 1), ("staged", 1), ("journaled", 1), ("moved", 1), ("moved", 3),
         ("committed", 1), ("planned", 2), ("moved", 5), ("committed", 2)]  # fmt: skip


class Killed(BaseException):
    """Ends a job at a step; nothing catches it."""


def killed_at(name, count):
    left = [count]

    def on_step(step):
        if step == name:
            left[0] -= 1
            if not left[0]:
                raise Killed(step)

    return on_step


def send(mq, topic, count, prefix="m"):
    with Producer(mq.namesrv, queue_index_start=0) as producer:
        for i in range(count):
            producer.send(Message(topic, b"%s %d" % (prefix.encode(), i), keys=f"{prefix}-{i}"))
    mq.wait_dispatched()


def rows_of(lake):
    return ds.dataset(str(lake), format="parquet", partitioning="hive").to_table().to_pylist()


def bodies_of(lake):
    return Counter(row["body"].decode() for row in rows_of(lake))


@pytest.fixture(scope="session")
def orders(mq):
    """A topic with 40 messages in four queues."""
    topic = mq.topic("Orders")
    send(mq, topic, 40)
    return topic


WHOLE = Counter(f"m {i}" for i in range(40))


def test_all_columns_come_into_the_lake_once_and_in_order(mq, orders, plain, tmp_path):
    report = to_lake(str(tmp_path), [orders], namesrv=mq.namesrv, spark=plain, rows_max=6)
    assert (report.rounds, report.topics[orders].messages, report.topics[orders].lag) == (2, 40, 0)
    rows = rows_of(tmp_path)
    assert bodies_of(tmp_path) == WHOLE
    row = next(row for row in rows if row["body"] == b"m 5")
    assert (row["topic"], row["broker_name"], row["queue_id"]) == (orders, "broker-a", 1)
    assert (row["queue_offset"], row["keys"], row["store_timestamp"].tzname()) == (1, "m-5", "UTC")
    assert f"{row['store_timestamp']:%Y-%m-%d %-H}" == f"{row['day']} {row['hour']}"
    names = [path.name for path in sorted(tmp_path.rglob("*.parquet"))]
    assert names[:2] == ["broker-a.0-0000000000-0000000005.parquet",
                         "broker-a.0-0000000006-0000000009.parquet"]  # fmt: skip
    again = to_lake(str(tmp_path), [orders], namesrv=mq.namesrv, spark=no_session)
    assert (again.rounds, bodies_of(tmp_path)) == (0, WHOLE)
    assert not list(tmp_path.rglob("_mqpipeline/staging/*"))


def no_session():
    raise AssertionError("nothing to read, and yet Spark starts")


@pytest.mark.parametrize(("step", "count"), STEPS)
def test_a_job_killed_at_any_step_goes_on(mq, orders, plain, tmp_path, step, count):
    job = {"namesrv": mq.namesrv, "spark": plain, "rows_max": 6}
    with pytest.raises(Killed):
        to_lake(str(tmp_path), [orders], **job, on_step=killed_at(step, count))
    seen = bodies_of(tmp_path) if list(tmp_path.rglob("topic=*")) else Counter()
    assert not seen or max(seen.values()) == 1
    to_lake(str(tmp_path), [orders], **job)
    assert bodies_of(tmp_path) == WHOLE
    assert not list(tmp_path.rglob("_mqpipeline/staging/*"))


SCRIPT = """
import os, signal, sys
from mqpipeline import to_lake
from tests.pipeline.in_process import InProcess

lake, topic, namesrv = sys.argv[1:]
left = [3]
def on_step(step):
    left[0] -= step == "moved"
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
to_lake(lake, [topic], namesrv=namesrv, spark=InProcess, on_step=on_step)
"""


def test_a_killed_process_leaves_no_lock(mq, orders, plain, tmp_path):
    words = [sys.executable, "-c", SCRIPT, str(tmp_path), orders, mq.namesrv]
    run = subprocess.run(words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert run.returncode == -9
    assert 0 < sum(bodies_of(tmp_path).values()) < 40
    to_lake(str(tmp_path), [orders], namesrv=mq.namesrv, spark=plain)
    assert bodies_of(tmp_path) == WHOLE


def test_a_second_run_is_refused_while_one_works(mq, orders, plain, tmp_path):
    job = {"namesrv": mq.namesrv, "spark": plain}
    with (
        opened(Lake(str(tmp_path)), "to-lake", "to-lake", {"by": "hour"}),
        pytest.raises(BusyError, match="another run of to-lake works"),
    ):
        to_lake(str(tmp_path), [orders], **job)
    to_lake(str(tmp_path), [orders], **job, name="other")
    with pytest.raises(UsageError, match=f"job other of lake .* reads topic {orders} too"):
        to_lake(str(tmp_path), [orders], **job)


def test_where_there_are_no_locks_the_later_run_wins(mq, orders, plain, tmp_path, monkeypatch):
    job = {"namesrv": mq.namesrv, "spark": plain}
    monkeypatch.setattr(
        Lake, "is_local", property(lambda self: False, lambda self, value: None), raising=False
    )

    def on_step(step):
        if step == "staged":
            to_lake(str(tmp_path), [orders], **job)

    with pytest.raises(BusyError, match="took over"):
        to_lake(str(tmp_path), [orders], **job, on_step=on_step)
    assert bodies_of(tmp_path) == WHOLE


def test_new_messages_and_new_queues_are_read_by_the_next_run(mq, plain, tmp_path):
    topic = mq.topic("Growing", queues=2)
    job = {"namesrv": mq.namesrv, "spark": plain, "by": "day"}
    send(mq, topic, 10, "a")
    to_lake(str(tmp_path), [topic], **job)
    mq.topic("Growing", queues=4)
    send(mq, topic, 10, "b")
    report = to_lake(str(tmp_path), [topic], **job)
    assert report.topics[topic].messages == 10
    assert max(bodies_of(tmp_path).values()) == 1 and sum(bodies_of(tmp_path).values()) == 20
    assert {row["queue_id"] for row in rows_of(tmp_path)} == {0, 1, 2, 3}
    assert not list(tmp_path.rglob("hour=*"))


def test_a_queue_created_after_the_plan_is_read_by_the_next_run(mq, plain, tmp_path):
    topic = mq.topic("Late", queues=1)
    send(mq, topic, 5, "a")

    def grow():
        mq.topic("Late", queues=2)
        send(mq, topic, 10, "b")
        return plain()

    job = {"namesrv": mq.namesrv}
    assert to_lake(str(tmp_path), [topic], **job, spark=grow).topics[topic].messages == 5
    to_lake(str(tmp_path), [topic], **job, spark=plain)
    assert sum(bodies_of(tmp_path).values()) == len(bodies_of(tmp_path)) == 15


def test_where_to_begin_and_a_tag(mq, plain, tmp_path):
    topic = mq.topic("Tagged", queues=1)
    with Producer(mq.namesrv) as producer:
        for i in range(10):
            producer.send(Message(topic, b"%d" % i, tags="AB"[i % 2]))
    mq.wait_dispatched()
    job = {"namesrv": mq.namesrv, "spark": plain}
    assert to_lake(str(tmp_path / "l"), [topic], **job, start="latest").rounds == 0
    middle = mq.messages(topic)[4].store_timestamp_ms
    plan = plan_to_lake(str(tmp_path / "t"), [topic], namesrv=mq.namesrv, start=middle)
    assert 0 < plan.backlog.rows <= 10
    assert not (tmp_path / "t").exists()
    to_lake(str(tmp_path / "a"), [topic], {"tags": "A"}, **job)
    assert sorted(bodies_of(tmp_path / "a")) == ["0", "2", "4", "6", "8"]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"topics": ["Missing"]}, Exception, "no route for topic 'Missing'"),
        ({"lake": "FILE"}, UsageError, "is a file"),
        ({"lake": "nofs://x/y"}, UsageError, "lake nofs"),
        ({"name": "a/b"}, UsageError, "--name 'a/b'"),
        ({"options": {"tga": "x"}}, UsageError, "no option 'tga'"),
        ({"options": {"Topic": "x"}}, UsageError, "the job sets this itself"),
        ({"body": Body("json", " ")}, UsageError, "--schema is empty"),
        ({"body": Body("avro", "/none.avsc")}, UsageError, "No such file"),
        ({"namesrv": "127.0.0.1:1"}, Exception, "127.0.0.1:1"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_spark_starts(mq, orders, tmp_path, change, error, words):
    (tmp_path / "file").write_text("x")
    job = {"lake": str(tmp_path / "lake"), "topics": [orders], "namesrv": mq.namesrv, **change}
    if job["lake"] == "FILE":
        job["lake"] = str(tmp_path / "file")
    options = {"timeout": "1", **job.pop("options", {})}
    with pytest.raises(error, match=words):
        to_lake(**job, options=options, spark=no_session)


def test_a_state_that_cannot_be_used_is_refused(mq, orders, plain, tmp_path):
    job = {"namesrv": mq.namesrv, "spark": plain}
    to_lake(str(tmp_path), [orders], **job)
    with pytest.raises(UsageError, match="ran with by = hour"):
        to_lake(str(tmp_path), [orders], **job, by="day")
    path = tmp_path / "_mqpipeline/to-lake.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "version": 2, "new": 1}))
    with pytest.raises(UsageError, match="has version 2, but this mqpipeline knows only 1"):
        to_lake(str(tmp_path), [orders], **job)
    path.write_text("{")
    with pytest.raises(PipelineError, match="is damaged"):
        to_lake(str(tmp_path), [orders], **job)


def test_a_queue_that_lost_messages_obeys_the_option(mq, plain, tmp_path):
    topic = mq.topic("Anew", queues=1)
    send(mq, topic, 5)
    job = {"namesrv": mq.namesrv, "spark": plain}
    to_lake(str(tmp_path), [topic], **job)
    path = tmp_path / "_mqpipeline/to-lake.json"
    state = json.loads(path.read_text())
    state["done"][f"broker-a|{topic}|0"] = 9
    path.write_text(json.dumps(state))
    with pytest.raises(DataLossError, match="the queue was created again"):
        to_lake(str(tmp_path), [topic], **job)


def test_spark_itself_decodes_bodies(mq, spark, tmp_path):
    topic = mq.topic("Json", queues=2)
    with Producer(mq.namesrv) as producer:
        for i in range(10):
            producer.send(Message(topic, b"no json" if i == 3 else b'{"a":%d,"b":"x"}' % i))
    mq.wait_dispatched()
    job = {"namesrv": mq.namesrv, "spark": lambda: spark}
    body = Body("json", "a int, b string")
    report = to_lake(str(tmp_path), [topic], **job, body=body)
    assert (report.topics[topic].messages, report.topics[topic].unparsed) == (10, 1)
    values = [row["value"] for row in rows_of(tmp_path)]
    assert sorted(value["a"] for value in values if value) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert values.count(None) == 1
    frame = spark.read.parquet(str(tmp_path))
    assert frame.where(f"topic = '{topic}'").selectExpr("sum(value.a)").first()[0] == 42
    with pytest.raises(UsageError, match="--schema 'a what'"):
        to_lake(str(tmp_path / "x"), [topic], **job, body=Body("json", "a what"))
    (tmp_path / "a.avsc").write_text('{"type": "string"}')
    with pytest.raises(PipelineError, match="Avro bodies need Spark's own package"):
        to_lake(str(tmp_path / "y"), [topic], **job, body=Body("avro", str(tmp_path / "a.avsc")))
