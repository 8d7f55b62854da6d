"""dlq: the dead letters of groups."""

import json

import pytest

from mqclient import Message, Producer
from mqcommon.names import dead_letter_topic
from mqpipeline.cli.main import main
from mqpipeline.errors import UsageError
from mqpipeline.jobs.dlq import dlq, plan_dlq
from tests.pipeline.test_to_lake import no_session


@pytest.fixture(scope="session")
def group(mq):
    """A group with five dead letters, as a broker stores them, and one with none."""
    topic = mq.topic(dead_letter_topic("billing"), queues=1)
    mq.topic(dead_letter_topic("idle"), queues=1)
    with Producer(mq.namesrv) as producer:
        for i in range(5):
            message = Message(topic, b"bill %d" % i, tags="AB"[i == 4], keys=["all", f"k{i}"])
            message.properties["RETRY_TOPIC"] = "Bills"
            producer.send(message)
    mq.wait_dispatched()
    return "billing"


def test_each_group_has_a_row(mq, group, spark, monkeypatch, capsys):
    billing, idle = dlq(["billing", "idle"], namesrv=mq.namesrv, samples=2, spark=lambda: spark)
    assert (billing.group, billing.messages, billing.original_topics) == ("billing", 5, ["Bills"])
    assert (billing.tags, billing.keys) == (["A", "B"], ["all", "k0", "k1"])
    assert (billing.retries_min, billing.retries_max) == (0, 0)
    assert billing.newest_ms >= billing.oldest_ms > 1_700_000_000_000
    assert [sample["body"] for sample in billing.samples] == ["bill 4", "bill 3"]
    assert (idle.messages, idle.oldest_ms) == (0, None)
    monkeypatch.setattr("mqpipeline.cli.options.open_session", lambda *_: spark)
    assert main(["dlq", "billing", "-n", mq.namesrv, "--output", "csv", "--sample", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("billing,5,20") and lines[1].endswith(",Bills,0,A B,all k0 k1")
    assert lines[3].endswith(",0,4,B,all k4,0,bill 4")


def test_a_plan_and_a_group_without_dead_letters(mq, group, capsys):
    assert [piece.rows for piece in plan_dlq(["billing"], namesrv=mq.namesrv)] == [5]
    assert dlq(["idle"], namesrv=mq.namesrv, spark=no_session)[0].messages == 0
    with pytest.raises(UsageError, match="'nobody' has no dead-letter topic"):
        dlq(["nobody"], namesrv=mq.namesrv, spark=no_session)
    assert main(["dlq", "-n", mq.namesrv, "--dry-run"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["topic"], row["rows"]) for row in rows] == [("%DLQ%billing", 5), ("%DLQ%idle", 0)]
