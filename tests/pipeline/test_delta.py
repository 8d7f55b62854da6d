"""topic -> Delta table: each message once in its log, at whatever step the job dies."""

import sys
from collections import Counter

import pytest

from mqclient import Message, Producer
from mqpipeline.errors import PipelineError, UsageError
from mqpipeline.jobs.bodies import Body
from mqpipeline.jobs.compact import compact
from mqpipeline.jobs.to_lake import to_lake

deltalake = pytest.importorskip("deltalake")

STEPS = [("planned", 1), ("staged", 1), ("journaled", 1), ("moved", 3), ("logged", 1),
         ("committed", 1), ("moved", 5), ("logged", 2), ("committed", 2)]  # fmt: skip
WHOLE = Counter(f"m {i}" for i in range(40))


class Killed(BaseException):
    """Ends a job at a step; nothing catches it."""


def killed_at(name, count):
    left = [count]

    def on_step(step):
        left[0] -= step == name
        if step == name and not left[0]:
            raise Killed(step)

    return on_step


def send(mq, topic, count):
    with Producer(mq.namesrv, queue_index_start=0) as producer:
        for i in range(count):
            producer.send(Message(topic, b"m %d" % i))
    mq.wait_dispatched()


@pytest.fixture(scope="session")
def orders(mq):
    """A topic with 40 messages in four queues."""
    topic = mq.topic("DeltaOrders")
    send(mq, topic, 40)
    return topic


def rows_of(lake):
    if not list(lake.glob("_delta_log/*.json")):
        return []
    return deltalake.DeltaTable(str(lake)).to_pyarrow_table().to_pylist()


def bodies_of(lake):
    return Counter(row["body"].decode() for row in rows_of(lake))


def test_rounds_are_commits_of_one_table(mq, plain, tmp_path):
    topic = mq.topic("DeltaRounds")
    send(mq, topic, 40)
    job = {"namesrv": mq.namesrv, "spark": plain, "file_format": "delta"}
    report = to_lake(str(tmp_path), [topic], **job, rows_max=6)
    assert (report.rounds, report.topics[topic].messages) == (2, 40)
    assert bodies_of(tmp_path) == WHOLE
    row = rows_of(tmp_path)[0]
    stored = row["store_timestamp"]
    assert (row["topic"], row["day"], row["hour"]) == (topic, stored.date(), stored.hour)
    table = deltalake.DeltaTable(str(tmp_path))
    assert table.version() == 2  # it was made, and two rounds
    assert table.metadata().partition_columns == ["topic", "day", "hour"]
    counts = table.get_add_actions().column("num_records").to_pylist()
    assert sum(counts) == 40
    send(mq, topic, 1)
    to_lake(str(tmp_path), [topic], **job)
    assert bodies_of(tmp_path) == WHOLE + Counter(["m 0"])
    to_lake(str(tmp_path), [topic], **job)
    assert deltalake.DeltaTable(str(tmp_path)).version() == 3


@pytest.mark.parametrize(("step", "count"), STEPS)
def test_a_job_killed_at_any_step_goes_on(mq, orders, plain, tmp_path, step, count):
    job = {"namesrv": mq.namesrv, "spark": plain, "rows_max": 6, "file_format": "delta"}
    with pytest.raises(Killed):
        to_lake(str(tmp_path), [orders], **job, on_step=killed_at(step, count))
    assert max(bodies_of(tmp_path).values(), default=1) == 1
    to_lake(str(tmp_path), [orders], **job)
    assert bodies_of(tmp_path) == WHOLE
    assert deltalake.DeltaTable(str(tmp_path)).version() == 2


def test_a_topic_whose_name_is_escaped(mq, plain, tmp_path):
    topic = mq.topic("%RETRY%delta|group")
    send(mq, topic, 4)
    job = {"namesrv": mq.namesrv, "spark": plain, "file_format": "delta", "by": "day"}
    to_lake(str(tmp_path), [topic], **job)
    assert {(row["topic"], row["body"]) for row in rows_of(tmp_path)} == {
        (topic, b"m %d" % i) for i in range(4)
    }


def test_other_columns_are_refused_and_change_nothing(mq, orders, spark, tmp_path):
    other = mq.topic("DeltaOther")
    send(mq, other, 2)
    job = {"namesrv": mq.namesrv, "spark": lambda: spark, "file_format": "delta"}
    to_lake(str(tmp_path), [other], **job)
    with pytest.raises(UsageError, match="is a Delta table with other columns"):
        to_lake(str(tmp_path), [orders], **job, body=Body("json", "a int"))
    to_lake(str(tmp_path), [orders], **job)
    assert {row["topic"] for row in rows_of(tmp_path)} == {orders, other}


def test_plain_files_and_tables_do_not_mix(mq, orders, plain, tmp_path):
    job = {"namesrv": mq.namesrv, "spark": plain}
    table, files = str(tmp_path / "table"), str(tmp_path / "files")
    to_lake(table, [orders], **job, file_format="delta")
    to_lake(files, [orders], **job)
    with pytest.raises(UsageError, match="is a Delta table, and this job writes plain Parquet"):
        to_lake(table, ["Other"], **job, name="other")
    with pytest.raises(UsageError, match="is a Delta table"):
        compact(table)
    with pytest.raises(UsageError, match="holds plain Parquet and is no Delta table"):
        to_lake(files, ["Other"], **job, name="other", file_format="delta")
    with pytest.raises(UsageError, match="ran with format = parquet before, not delta"):
        to_lake(files, [orders], **job, file_format="delta")
    with pytest.raises(UsageError, match="--format delta needs a local path"):
        to_lake("mock://bucket/lake", [orders], **job, file_format="delta")


def test_a_deleted_state_is_no_reason_to_write_again(mq, orders, plain, tmp_path):
    job = {"namesrv": mq.namesrv, "spark": plain, "file_format": "delta"}
    to_lake(str(tmp_path), [orders], **job)
    (tmp_path / "_mqpipeline" / "to-lake.json").unlink()
    with pytest.raises(PipelineError, match="job's state was deleted"):
        to_lake(str(tmp_path), [orders], **job, rows_max=6)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch, mq, orders, plain, tmp_path):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(ImportError, match=r"pip install 'mqstack\[delta\]'"):
        to_lake(str(tmp_path), [orders], namesrv=mq.namesrv, spark=plain, file_format="delta")
