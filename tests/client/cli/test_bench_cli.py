"""`mqclient bench` against our own servers in this process."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mqclient.cli.bench import bench, run_produce
from mqserver import Standalone
from tests.waiting import until

NOBODY = "127.0.0.1:1"


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(bench, arguments)
    return result.exit_code, result.stdout, result.stderr


def report(*arguments: str) -> dict[str, Any]:
    """The report of a run that must be a good one."""
    code, out, words = run(*arguments, "--output", "json")
    assert (code, words) == (0, ""), out
    whole: list[dict[str, Any]] = json.loads(out)
    assert whole[0]["problems"] == []
    return whole[0]


def place(mq: Standalone, topic: str) -> tuple[str, ...]:
    return ("-n", mq.namesrv, "-t", topic, "--warmup", "0")


@pytest.mark.parametrize(
    "mode",
    [
        "--in-flight 32 --headers rocketmq",
        "--threads 4",
        "--batch 10 --in-flight 2",
        "--oneway --in-flight 8",
        "--no-wait --tags TagA",
        "--rate 5000",
    ],
)
def test_what_was_sent_is_stored_and_consumed(mq_broker: Standalone, mode: str) -> None:
    topic = mq_broker.topic()
    here = place(mq_broker, topic)
    sent = report("produce", *here, "--count", "500", "--body-bytes", "99", *mode.split())
    assert (sent["messages"], sent["bytes"], sent["refused"]) == (500, 49_500, {})
    assert (sent["totals"]["sent"], sent["totals"]["stored"]) == (500, 500)
    assert len(mq_broker.messages(topic)) == 500
    read = report("consume", *here, "--threads", "2")
    assert (read["messages"], read["totals"]["missing"]) == (500, 0)


def test_many_topics_queues_and_groups(mq_broker: Standalone) -> None:
    here = (*place(mq_broker, "BenchMany"), "--topics", "20")
    sent = report("produce", *here, "--queues", "3", "--count", "600", "--in-flight", "16")
    assert (sent["totals"]["topics_created"], sent["totals"]["stored"]) == (20, 600)
    assert sent["create_topic_us"]["count"] == 20
    assert len(mq_broker.messages("BenchMany-000019")) == 30
    read = report("consume", *here, "--groups", "3", "--commit")
    assert read["messages"] == 3 * 600
    mq_broker.wait_consumed("mqclient_bench-002", "BenchMany-000000")


def test_latency_follows_every_message(mq_broker: Standalone) -> None:
    here = place(mq_broker, mq_broker.topic())
    found = report("latency", *here, "--duration", "0.5", "--rate", "2000", "--readers", "2")
    totals = found["totals"]
    assert found["messages"] == totals["sent"] == totals["received"] == 1000
    assert (totals["lost"], totals["duplicates"], totals["missing"]) == (0, 0, 0)
    assert 0 < found["latency_us"]["p50"] <= found["latency_us"]["p9999"]
    assert found["send_us"]["count"] == 1000


def test_a_tail_reads_nothing_of_the_backlog(mq_broker: Standalone) -> None:
    here = place(mq_broker, mq_broker.topic())
    report("produce", *here, "--count", "10")
    mq_broker.wait_dispatched()
    code, out, words = run("consume", *here, "--tail", "--duration", "0.2", "--output", "json")
    assert (code, json.loads(out)[0]["messages"]) == (0, 0)
    assert words == "mqclient: nothing was counted: no message came in the counted time\n"


@pytest.mark.parametrize("role", ["silent", "producer", "consumer"])
def test_connections_are_held(mq_broker: Standalone, role: str) -> None:
    here = ("-n", mq_broker.namesrv, "-t", mq_broker.topic(), "--duration", "1")
    storm = ("--connections", "50", "--rate", "500", "--heartbeat", "0.1")
    found = report("connect", *here, *storm, "--role", role)
    assert found["totals"]["connected"] == found["latency_us"]["count"] == 50
    beats = found["totals"].get("heartbeats", 0)
    assert beats == 0 if role == "silent" else beats > 50


def test_a_storm_counts_connections(mq_broker: Standalone) -> None:
    here = ("-n", mq_broker.namesrv, "-t", mq_broker.topic(), "--duration", "0")
    code, out, words = run("connect", *here, "--connections", "5", "--output", "csv")
    assert (code, words) == (0, "")
    assert out.startswith("connections,seconds,connections_per_second,p50_us,")
    assert out.splitlines()[1].startswith("5,")


def test_a_row_for_people(mq_broker: Standalone) -> None:
    here = place(mq_broker, mq_broker.topic())
    code, out, _ = run("produce", *here, "--batch", "10", "--count", "200", "--output", "csv")
    header, row = out.splitlines()
    assert code == 0
    assert header == (
        "messages,seconds,messages_per_second,megabytes_per_second,"
        "p50_us,p99_us,p99.9_us,p99.99_us,max_us"
    )
    assert row.startswith("200,")


def test_a_broker_that_is_not_there_exits_3(mq_broker: Standalone) -> None:
    topic = mq_broker.topic()
    here = (
        "-n",
        mq_broker.namesrv,
        "-t",
        topic,
        "--address-map",
        f"{mq_broker.broker_address}={NOBODY}",
    )
    code, _, words = run("produce", *here, "--count", "1")
    said = f"Error: no connection to the broker {NOBODY}, which the NameServer names: "
    assert (code, words.startswith(said)) == (3, True), words


def test_errors_have_exit_codes_and_words(mq_namesrv: str) -> None:
    code, _, words = run("consume", "-n", mq_namesrv, "-t", "Nowhere")
    assert code == 1
    assert words == (
        f"Error: topic Nowhere does not exist at NameServer {mq_namesrv}; "
        f"brokers there: mqadmin clusterList -n {mq_namesrv}; "
        f"create it: mqadmin updateTopic -n {mq_namesrv} -c DefaultCluster -t Nowhere\n"
    )
    code, _, words = run("produce", "-n", NOBODY)
    assert code == 3
    assert words.startswith(f"Error: no connection to NameServer {NOBODY}: ")


def test_a_broker_given_as_the_nameserver_is_named(mq_broker: Standalone) -> None:
    code, _, words = run("produce", "-n", mq_broker.broker_address)
    assert (code, f"{mq_broker.broker_address} is a broker, not a NameServer" in words) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("produce --threads 0", "threads 0 is not between 1 and 4096"),
        ("produce --rate -1", "rate -1 is not between 0 and 100000000"),
        ("produce --duration nan", "'nan' is not a number of seconds or messages"),
        ("produce --duration -1", "duration_s -1 is not between 0 and 1000000"),
        ("produce --body-bytes 5000000", "body_bytes 5000000 is not between 1 and 4194304"),
        ("produce --in-flight x", "'x' is not a valid integer"),
        ("produce --count -1", "-1 is not between 0 and"),
        ("produce --batch 32 --count 31", "count 31 is not between 32 and"),
        ("produce --save nowhere/a.json", "is not a writable folder"),
        ("produce -t a.b", 'topic "a.b" is not 1 to 127 of the characters'),
        ("produce --address-map x", "address"),
        ("produce --credentials pyproject.toml", "pyproject.toml is not YAML"),
        ("consume --groups 0", "groups 0 is not between 1 and 1000"),
        ("consume --tail --repeat", "tail and repeat exclude each other"),
        ("latency --body-bytes 8", "body_bytes 8 is not between 36 and 4194304"),
        ("connect --connections 0", "connections 0 is not between 1 and 100000"),
        ("connect --role admin", "'admin' is not one of"),
        ("compare", "Missing argument"),
    ],
)
def test_wrong_input_is_a_usage_error(arguments: str, words: str) -> None:
    code, _, said = run(*arguments.split(" "))
    assert code == 2
    assert words in " ".join(said.split())


def test_saved_runs_are_compared(mq_broker: Standalone, tmp_path: Path) -> None:
    here = place(mq_broker, mq_broker.topic())
    for file in ("a.json", "b.json"):
        for _ in range(2):
            report("produce", *here, "--count", "50", "--save", str(tmp_path / file))
    files = (str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    code, out, words = run("compare", *files, "--output", "json")
    assert (code, words) == (0, "")
    rows = {row["figure"]: row for row in json.loads(out)}
    throughput = rows["messages_per_second"]
    assert throughput["b/a"] == pytest.approx(throughput["b"] / throughput["a"])
    assert {"latency p50 (us)", "latency p99.99 (us)", "latency max (us)"} <= rows.keys()


def fake_report(per_second: float, p99: float, **more: Any) -> dict[str, Any]:
    latency = dict.fromkeys(("p50", "p99", "p999", "p9999", "max"), p99)
    figures = {"messages_per_second": per_second, "megabytes_per_second": 0.0}
    head = {"kind": "produce", "name": "send", "problems": [], "settings": {"load": {}}}
    return {**head, **figures, "latency_us": latency, **more}


def test_rounds_count_by_their_median_and_what_differs_is_said(tmp_path: Path) -> None:
    java, ours = tmp_path / "java.json", tmp_path / "ours.json"
    rounds = [fake_report(100, 10), fake_report(1, 10), fake_report(101, 10)]
    java.write_text("\n".join(json.dumps(one) for one in rounds))
    other = fake_report(250, 5, settings={"batch": 2}, problems=["3 messages are lost"])
    ours.write_text(json.dumps([other]))
    code, out, words = run("compare", str(java), str(ours), "--output", "json")
    rows = {row["figure"]: row for row in json.loads(out)}
    assert code == 0
    assert (rows["messages_per_second"]["java"], rows["messages_per_second"]["ours/java"]) == (
        100,
        2.5,
    )
    assert rows["messages_per_second"]["best"] == rows["latency p99 (us)"]["best"] == "ours"
    assert rows["megabytes_per_second"]["ours/java"] is None
    assert "ours, send: 3 messages are lost" in words
    assert "send: the runs differ in batch" in words


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("", 2, "it is empty"),
        ("{", 2, "is no report"),
        ("[1]", 2, "is no report"),
        ('{"kind": "produce"}', 2, "is no report"),
        (json.dumps(fake_report(1, 1, name="other")), 1, "use --name"),
    ],
)
def test_what_cannot_be_compared(tmp_path: Path, text: str, code: int, words: str) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(fake_report(1, 1)))
    bad.write_text(text)
    found, _, said = run("compare", str(good), str(bad))
    assert (found, words in " ".join(said.split())) == (code, True), said
    assert run("compare", str(good))[0] == run("compare", str(good), str(good))[0] == 2


class Enough(Exception):
    """Raised by a signal's handler."""


@contextmanager
def signalled(mq: Standalone, topic: str, number: signal.Signals) -> Iterator[None]:
    """Send this process a signal after the first message."""

    def wait() -> None:
        assert until(lambda: mq.messages(topic))
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_ctrl_c_ends_a_load_and_gives_its_report(mq_broker: Standalone) -> None:
    topic = mq_broker.topic()
    endless: dict[str, object] = {"namesrv": mq_broker.namesrv, "topic": topic, "duration_s": 3600}
    with signalled(mq_broker, topic, signal.SIGINT):
        sent = run_produce({**endless, "warmup_s": 0.0}, rate=500.0)
    assert 0 < sent["messages"] == len(mq_broker.messages(topic))


def test_what_another_signals_handler_raises_ends_a_load(mq_broker: Standalone) -> None:
    def enough(*_: object) -> None:
        raise Enough

    topic = mq_broker.topic()
    endless: dict[str, object] = {"namesrv": mq_broker.namesrv, "topic": topic, "duration_s": 3600}
    before = signal.signal(signal.SIGTERM, enough)
    try:
        with signalled(mq_broker, topic, signal.SIGTERM), pytest.raises(Enough):
            run_produce({**endless, "warmup_s": 0.0}, rate=500.0)
    finally:
        signal.signal(signal.SIGTERM, before)
