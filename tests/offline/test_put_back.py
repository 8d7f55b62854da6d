"""`mqclient send --file`: an export goes into a running broker as it came out of the dead one."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqclient.cli import main
from mqserver.embedded.standalone import Standalone
from mqstore.offline.export import export

FORMATS = ["jsonl", "jsonl.zst", "csv", "parquet"]
DROPPED = {
    "TRAN_MSG", "TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET", "CLUSTER", "WAIT",
    "DELAY", "REAL_TOPIC", "REAL_QID",
}  # fmt: skip

Run = Callable[..., tuple[int, Any, str]]


@pytest.fixture(scope="module")
def mq() -> Iterator[Standalone]:
    with Standalone(settings={"defaultTopicQueueNums": "8"}) as both:
        yield both


@pytest.fixture
def run(mq: Standalone, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, Any, str]:
        code = main(["send", "-n", mq.namesrv, *map(str, arguments)])
        captured = capsys.readouterr()
        return code, [json.loads(line) for line in captured.out.splitlines()], captured.err

    return run


@pytest.fixture(params=FORMATS)
def exported(request: Any, golden_store: Any, tmp_path: Path) -> Path:
    file = tmp_path / f"out.{request.param}"
    export(mqstore.open(golden_store("store")), file)
    return file


def stored(mq: Standalone, since: int) -> dict[tuple[str, str], mqstore.ReceivedMessage]:
    return {(m.topic, m.msg_id): m for m in mqstore.open(mq.data).records(since or None)}


def is_plain(message: mqstore.ReceivedMessage) -> bool:
    return not message.topic.startswith(("RMQ_SYS", "%RETRY%", "SCHEDULE_", "OFFSET_MOVED"))


def test_every_message_comes_back(
    mq: Standalone, run: Run, exported: Path, golden_store: Any
) -> None:
    before = mqstore.open(mq.data).end_physical_offset()
    code, rows, err = run("--file", exported)
    assert (code, err) == (0, "")
    assert rows == [
        {"file": str(exported), "read": 576, "sent": 576, "notDurable": 0, "leftOut": 0}
    ]
    got = stored(mq, before)
    wanted = [m for m in mqstore.open(golden_store("store")).records() if is_plain(m)]
    assert len(wanted) > 500
    for message in wanted:
        again = got[message.topic, message.msg_id]
        assert again.born_timestamp_ms == message.born_timestamp_ms
        assert (again.body, again.flag) == (message.body, message.flag)
        kept = {k: v for k, v in message.properties.items() if k not in DROPPED}
        assert kept.items() <= again.properties.items()


def test_delayed_messages_that_were_pending_are_delayed_again(
    mq: Standalone, run: Run, golden_store: Any, tmp_path: Path
) -> None:
    reader = mqstore.open(golden_store("store"))
    pending = [
        m for m in reader.records(topic="SCHEDULE_TOPIC_XXXX") if m.queue_id == 17
    ]  # level 18, two hours: none was delivered
    assert len(pending) == 2
    file = tmp_path / "out.jsonl"
    assert export(reader, file).messages == 576
    before = mqstore.open(mq.data).end_physical_offset()
    assert run("--file", file)[0] == 0
    again = [m for m in stored(mq, before).values() if m.topic == "SCHEDULE_TOPIC_XXXX"]
    assert {m.msg_id for m in again} == {m.msg_id for m in pending}
    assert {m.properties["REAL_TOPIC"] for m in again} == {"TopicDelay"}


def test_to_another_topic_the_same_queues_and_a_part(
    mq: Standalone, run: Run, golden_store: Any, tmp_path: Path
) -> None:
    file = tmp_path / "out.csv"
    reader = mqstore.open(golden_store("store"))
    export(reader, file, mqstore.Wanted(topic="TopicOrder"))
    order = [m.body for m in reader.records(topic="TopicOrder")]
    assert len(order) == 8
    code, rows, _ = run("TopicOther", "--file", file, "--keep-queue", "--skip", 2, "--count", 5)
    assert (code, rows[0]["sent"]) == (0, 5)
    got = mqstore.open(mq.data).records(topic="TopicOther", queue_id=2)
    assert [m.body for m in got] == order[2:7]


def test_what_rocketmq_keeps_for_itself_is_not_sent(
    mq: Standalone, run: Run, golden_store: Any, tmp_path: Path
) -> None:
    file = tmp_path / "out.jsonl"
    report = export(
        mqstore.open(golden_store("store")),
        file,
        mqstore.Wanted(topic="RMQ_SYS_TRANS_HALF_TOPIC"),
        everything=True,
    )
    code, rows, _ = run("--file", file)
    assert (code, rows[0]["sent"], rows[0]["leftOut"]) == (0, 0, report.messages)
    assert report.messages > 3


def test_a_failure_says_where_and_how_to_go_on(
    mq: Standalone, run: Run, golden_store: Any, tmp_path: Path
) -> None:
    file = tmp_path / "out.jsonl"
    export(mqstore.open(golden_store("store")), file, mqstore.Wanted(topic="TopicTest"), count=10)
    whole = file.read_text().splitlines()
    row = json.loads(whole[6])
    row["bodyCRC"] += 1
    file.write_text("\n".join([*whole[:6], json.dumps(row), *whole[7:]]))
    code, _, err = run("--file", file)
    assert code == 2
    assert "line 7: its body does not match its bodyCRC" in err
    assert "stopped; 0 messages are sent" in err or "--skip 6" in err
    file.write_text("\n".join(whole))
    code, rows, _ = run("--file", file, "--keep-queue", "--skip", 6)
    assert (code, rows[0]["sent"]) == (0, 4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name a TOPIC, or a file"),
        (("T", "body", "--keep-queue"), "--keep-queue goes with --file only"),
        (("T", "--file", "{file}", "--tags", "a"), "no BODIES, tags, keys"),
        (("T", "body", "--file", "{file}"), "no BODIES, tags, keys"),
        (("--file", "/no/such/file.jsonl"), "/no/such/file.jsonl"),
        (("--file", "{other}"), "in.txt: its name must end in one of .jsonl, .jsonl.zst, .csv,"),
        (("--file", "{file}"), "line 1: not JSON"),
    ],
)
def test_wrong_input(run: Run, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    file, other = tmp_path / "in.jsonl", tmp_path / "in.txt"
    file.write_text("hello\n")
    other.write_text("hello\n")
    code, _, err = run(*(word.format(file=file, other=other) for word in arguments))
    assert code == 2
    assert words in err


def test_a_queue_that_is_missing_is_said(
    mq: Standalone, run: Run, golden_store: Any, tmp_path: Path
) -> None:
    file = tmp_path / "out.jsonl"
    export(mqstore.open(golden_store("store")), file, mqstore.Wanted(topic="TopicTest"), count=1)
    row = json.loads(file.read_text())
    file.write_text(json.dumps(row | {"queueId": 77}))
    code, _, err = run("--file", file, "--keep-queue")
    assert code == 2
    assert "'TopicTest' has no queue 77" in err


def test_ctrl_c_says_how_to_go_on_and_nothing_is_lost(
    mq: Standalone, terminal: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = mqstore.Settings(commit_log_file_bytes=16 << 20, min_free_bytes=0)
    with mqstore.Store(tmp_path / "store", settings, create=True) as store:
        item = struct.pack(">iiiii8sh", 30, 0, 0, 0, 8, b"stopped!", 0)
        for _ in range(20):
            assert store.put("TopicStopped", item * 1000, batch=True).status == "PUT_OK"
    file = tmp_path / "out.jsonl"
    export(mqstore.open(tmp_path / "store"), file)
    opened = terminal("send", "-n", mq.namesrv, "--file", file, package="mqclient")
    assert "send" in opened.shown("send")
    os.kill(opened.process.pid, signal.SIGINT)
    said = opened.shown()
    assert opened.process.wait(60) == 130
    assert "Traceback" not in said
    skip = re.search(r"--skip (\d+)", said)
    assert skip is not None, said
    assert main(["send", "-n", mq.namesrv, "--file", str(file), "--skip", skip[1]]) == 0
    left = json.loads(capsys.readouterr().out)["sent"]
    assert left == 20_000 - int(skip[1])
    stored = sum(1 for _ in mqstore.open(mq.data).records(topic="TopicStopped"))
    assert 20_000 <= stored <= 20_000 + 64
