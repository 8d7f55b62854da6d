"""audit: gaps, repeats and delays, in a lake and in topics; the page needs no network."""

import json
import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqclient import Message, Producer
from mqcommon.names import TRACE_TOPIC
from mqpipeline.cli.main import main
from mqpipeline.jobs.audit import AuditReport, audit, audit_lake
from mqpipeline.jobs.audit_page import page
from mqpipeline.lake import layout
from tests.pipeline.test_to_lake import no_session

START = datetime(2026, 11, 25, 7, 30, tzinfo=UTC)
FIELD, RECORD = chr(1), chr(2)


def put(lake, topic, offsets, ids, bodies=None, delay_ms=10):
    """A file of a lake: message i is stored i minutes after START, `delay_ms` after it was sent."""
    stored = [START + timedelta(minutes=i) for i, _ in enumerate(offsets)]
    table = pa.table({
        "broker_name": ["broker-a"] * len(offsets),
        "queue_id": pa.array([0] * len(offsets), pa.int32()),
        "queue_offset": pa.array(offsets, pa.int64()),
        "msg_id": ids,
        "body": pa.array(bodies or [b"x"] * len(offsets), pa.binary()),
        "store_timestamp": pa.array(stored, pa.timestamp("us", "UTC")),
        "born_timestamp": pa.array(
            [at - timedelta(milliseconds=delay_ms) for at in stored], pa.timestamp("us", "UTC")
        ),
    })  # fmt: skip
    folder = lake / layout.folder_name(topic, int(START.timestamp() * 1e6), "hour")
    folder.mkdir(parents=True, exist_ok=True)
    name = layout.file_name(layout.queue_source("broker-a", 0), offsets[0], offsets[-1])
    pq.write_table(table, folder / name)


def trace(*fields):
    return FIELD.join(map(str, fields)) + RECORD


@pytest.fixture
def lake(tmp_path):
    put(tmp_path, "007", [0, 1, 2, 5, 6, 9], ["a", "b", "c", "c", "c", "d"])
    put(tmp_path, "Whole", list(range(60)), [f"w{i}" for i in range(60)], delay_ms=7)
    sent = int(START.timestamp() * 1000)
    records = trace("Pub", sent, "region", "producers", "Whole", "w0", "", "", "host", 1, 5) + (
        trace("SubBefore", sent + 40, "region", "readers", "request", "w0", 0, "")
        + trace("SubBefore", sent + 990, "region", "readers", "request", "w0", 1, "")
        + trace("SubAfter", "request", "w0", 3, "true", "", 0)
    )
    put(tmp_path, TRACE_TOPIC, [0], ["t"], [records.encode()])
    return tmp_path


def test_a_lake_with_gaps_and_repeats(spark, lake, monkeypatch, capsys):
    report = audit_lake(str(lake), ["007", "Whole"], spark=lambda: spark)
    assert report.topics == [
        {"topic": "007", "messages": 6, "repeatedIds": 1, "extraCopies": 2},
        {"topic": "Whole", "messages": 60, "repeatedIds": 0, "extraCopies": 0},
    ]
    assert report.queues[0] == {
        "topic": "007", "broker": "broker-a", "queue": 0, "first": 0, "last": 9, "messages": 6,
        "gaps": 2, "missing": 4, "firstMissing": 3, "repeated": 0,
    }  # fmt: skip
    assert (report.queues[1]["gaps"], report.queues[1]["firstMissing"], report.gaps) == (0, None, 2)
    assert report.hours[1:] == [
        {"topic": "Whole", "hour": f"2026-11-25 0{hour}:00", "messages": 30, "p50Ms": 7,
         "p95Ms": 7, "p99Ms": 7, "maxMs": 7}
        for hour in (7, 8)
    ]  # fmt: skip
    assert [(row["topic"], row["group"], row["messages"], row["maxMs"])
            for row in report.consumption] == [("Whole", "readers", 1, 40)]  # fmt: skip
    monkeypatch.setattr("mqpipeline.cli.options.open_session", lambda *_: spark)
    words = ["audit", "007", "--lake", str(lake), "--html", str(lake / "audit.html")]
    assert main(words) == 5
    kinds = [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()]
    assert kinds == ["topics", "queues", "hours", "consumption"]
    assert "<svg" in (lake / "audit.html").read_text()


def test_topics_of_a_cluster(mq, spark):
    topic = mq.topic("Audited", queues=2)
    with Producer(mq.namesrv, queue_index_start=0) as producer:
        for i in range(20):
            producer.send(Message(topic, b"%d" % i))
    mq.wait_dispatched()
    report = audit([topic], namesrv=mq.namesrv, spark=lambda: spark)
    assert [(row["queue"], row["messages"], row["gaps"]) for row in report.queues] == [
        (0, 10, 0), (1, 10, 0)
    ]  # fmt: skip
    assert sum(row["messages"] for row in report.hours) == 20 and report.gaps == 0
    assert report.hours[0]["maxMs"] >= report.hours[0]["p50Ms"] >= 0


def test_the_page_has_its_plots_inside_and_nothing_from_outside():
    hour = {"topic": "<T>", "hour": "2026-11-25 07:00", "messages": 3,
            "p50Ms": 1, "p95Ms": 2, "p99Ms": 3, "maxMs": 4}  # fmt: skip
    report = AuditReport(
        topics=[{"topic": "<T>", "messages": 3}], queues=[], hours=[hour],
        consumption=[{**hour, "group": "g&h"}],
    )  # fmt: skip
    text = page(report, "Audit of <T>")
    assert "<T>" not in text and "g&amp;h" in text and text.count("<svg") == 4
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert all("w3.org" in address for address in addresses), addresses
    assert not re.search(r"<script|@import|\bsrc=|href=\"http", text)
    for picture in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(picture)


def test_what_cannot_be_audited_is_said_before_spark_starts(mq, lake, tmp_path, capsys):
    with pytest.raises(Exception, match="no route for topic 'Missing'"):
        audit(["Missing"], namesrv=mq.namesrv, spark=no_session)
    for words, said in [
        ([], "name topics, or --lake"),
        (["--lake", str(tmp_path / "none")], "does not exist"),
        (["--lake", str(lake), "--html", "/none/x.html"], "there is no such folder"),
    ]:
        assert main(["audit", *words]) == 2
        assert said in capsys.readouterr().err
