"""Commands that RocketMQ lacks: offsets, lag, dlq. All run at our broker."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin import main
from mqadmin.catalogue import command_of, named
from mqadmin.moving import target_of
from mqadmin.places import time_of
from mqclient import Admin, LitePullConsumer, Message, Producer
from mqclient.admin import Admin as AsyncAdmin
from mqclient.admin import ShiftBy, ToOffset
from mqclient.admin.dead_letters import REDRIVE_GROUP
from mqcommon.message import MessageQueue
from mqserver import Standalone
from tests.admin.json_schema import check_rows

Run = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def run(mq_broker: Standalone, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command at our broker: exit code, rows, errors."""

    def run_one(line: str, form: str = "json") -> tuple[int, Any, str]:
        code = main([*shlex.split(line), "-n", mq_broker.namesrv, "--output", form])
        output = capsys.readouterr()
        if form != "json" or code != 0:
            return code, output.out, output.err
        rows = json.loads(output.out)
        name, _ = named(shlex.split(line))
        check_rows(f"{name} total" if "--total" in line else str(name), rows)
        return code, rows, output.err

    return run_one


@pytest.fixture
def topic(mq_broker: Standalone) -> str:
    """A topic of one queue with 10 messages."""
    topic = mq_broker.topic(queues=1)
    with Producer(mq_broker.namesrv) as producer:
        for number in range(10):
            producer.send(Message(topic, b"%d" % number))
    mq_broker.wait_dispatched()
    return topic


@pytest.fixture
def group(mq_broker: Standalone, topic: str) -> str:
    """A group without members, with offset 4 in the topic."""
    group = f"group_of_{topic}"
    with LitePullConsumer(group, mq_broker.namesrv) as consumer:
        consumer.subscribe(topic)
        consumer.wait_assigned()
    with Admin(mq_broker.namesrv) as admin:
        admin.offsets.commit(group, MessageQueue(topic, "broker-a", 0), 4)
    return group


def offset_of(mq_broker: Standalone, group: str, topic: str) -> int | None:
    with Admin(mq_broker.namesrv) as admin:
        return admin.offsets.of_group(group, topic).get(MessageQueue(topic, "broker-a", 0))


@pytest.mark.parametrize(
    ("to", "after", "skipped", "repeated"),
    [
        ("earliest", 0, 0, 4),
        ("latest", 10, 6, 0),
        ("offset:7", 7, 3, 0),
        ("offset:99", 10, 6, 0),
        ("shift-by:-3", 1, 0, 3),
        ("shift-by:2", 6, 2, 0),
        ("time:0", 0, 0, 4),
        ("time:2100-01-01T00:00:00Z", 10, 6, 0),
    ],
)
def test_a_group_is_moved_after_a_dry_run_showed_how(
    run: Run, mq_broker: Standalone, topic: str, group: str, to: str, after: int,
    skipped: int, repeated: int,
) -> None:  # fmt: skip
    line = f"offsets reset -g {group} -t {topic} --to {to}"
    code, planned, errors = run(f"{line} --dry-run")
    assert (code, errors) == (0, "")
    assert planned == [
        {
            "group": group, "topic": topic, "brokerName": "broker-a", "queueId": 0,
            "minOffset": 0, "maxOffset": 10, "before": 4, "after": after,
            "skipped": skipped, "repeated": repeated,
        }
    ]  # fmt: skip
    assert offset_of(mq_broker, group, topic) == 4, "a dry run changes nothing"
    assert run(f"{line} --yes") == (0, planned, "")
    assert offset_of(mq_broker, group, topic) == after


def test_a_new_group_can_be_moved(run: Run, topic: str) -> None:
    code, (row,), _ = run(f"offsets reset -g new_{topic} -t {topic} --to shift-by:3 --yes")
    assert (code, row["before"], row["after"]) == (0, None, 3)


def test_messages_are_skipped(run: Run, mq_broker: Standalone, topic: str, group: str) -> None:
    line = f"offsets skip -g {group} -t {topic} --yes"
    assert run(f"{line} --count 1 -q broker-a:0")[1][0]["after"] == 5
    assert run(line)[1][0]["skipped"] == 5
    assert offset_of(mq_broker, group, topic) == 10


def test_offsets_are_copied_exported_and_imported(
    run: Run, mq_broker: Standalone, topic: str, group: str, tmp_path: Path
) -> None:
    other = f"copy_{group}"
    assert run(f"offsets copy -s {group} -d {other} -t {topic} --yes")[0] == 0
    assert offset_of(mq_broker, other, topic) == 4
    code, text, _ = run(f"offsets export -g {group} -t {topic}", "jsonl")
    row = {"group": group, "topic": topic, "brokerName": "broker-a", "queueId": 0, "offset": 4}
    assert (code, json.loads(text)) == (0, row)
    check_rows("offsets export", [row])
    file = tmp_path / "offsets.jsonl"
    file.write_text(text)
    run(f"offsets reset -g {group} -t {topic} --to latest --yes")
    code, (planned,), _ = run(f"offsets import -f {file} --dry-run")
    assert (code, planned["before"], planned["after"]) == (0, 10, 4)
    assert run(f"offsets import -f {file} --yes")[0] == 0
    assert offset_of(mq_broker, group, topic) == 4
    file.write_text(json.dumps([{**row, "offset": 6}]))
    assert run(f"offsets import -f {file} -g third_{topic} --yes")[0] == 0
    assert offset_of(mq_broker, f"third_{topic}", topic) == 6


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the file has no offsets"),
        ("{", "the file is not JSON of offsets export"),
        ('{"group": "g"}', "row 1 has no 'topic'"),
        ('[{"group": "g", "topic": "t", "brokerName": "b", "queueId": "0", "offset": 1}]',
         "row 1 has no 'queueId'"),
        ('{"group": "g", "topic": "t", "brokerName": "b", "queueId": 0, "offset": -1}',
         "row 1 has a negative number"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_export_is_refused(
    run: Run, tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "file").write_text(text)
    code, _, errors = run(f"offsets import -f {tmp_path}/file --yes")
    assert (code, complaint in errors) == (2, True)


def test_running_members_are_told_or_keep_the_group(
    run: Run, mq_broker: Standalone, topic: str, group: str
) -> None:
    with LitePullConsumer(group, mq_broker.namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(topic)
        consumer.wait_assigned()
        code, _, errors = run(f"offsets reset -g {group} -t {topic} --to offset:1 --yes")
        assert (code, "1 members online" in errors) == (1, True)
        code, (row,), _ = run(f"offsets reset -g {group} -t {topic} --to earliest --yes")
        assert (code, row["after"]) == (0, 0)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("offsets", "mqadmin offsets: say what to do: copy, export, import, reset, skip"),
        ("dlq", "mqadmin dlq: say what to do: list, peek, purge, redrive"),
        ("dlq burn", "mqadmin dlq: say what to do"),
        ("offsets reset -g g -t t", "Missing required option: to"),
        ("offsets reset -g g -t t --to middle --yes", "--to must be earliest, latest, offset:N"),
        ("offsets reset -g g -t t --to offset:x --yes", "'x' is not a whole number"),
        ("offsets reset -g g -t t --to time:noon --yes", "'noon' is not a time"),
        ("offsets reset -g g -t TBW102 --to latest -q 0 --yes", "'0' is not BROKER:ID"),
        ("offsets skip -g g -t t --count 0 --yes", "--count must be at least 1"),
        ("offsets reset -g g -t t --to latest", "changes stored data: confirm it with --yes"),
        ("dlq purge -g g", "changes stored data: confirm it with --yes"),
        ("dlq redrive -g g", "changes stored data: confirm it with --yes"),
        ("dlq peek -g g --count 0", "--count must be at least 1"),
    ],
)
def test_wrong_use_is_exit_code_2(run: Run, line: str, complaint: str) -> None:
    code, _, errors = run(line)
    assert code == 2
    assert complaint in errors


@pytest.mark.parametrize("words", [["offsets"], ["dlq", "burn"], ["help", "dlq"]])
def test_the_second_words_are_listed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "say what to do: " in capsys.readouterr().err


def test_help_of_two_words(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["help", "offsets", "reset"], ["OFFSETS", "RESET", "--help"]):
        assert main(words) == 0
        output = capsys.readouterr().out
        assert output.startswith("usage: mqadmin offsets reset [--dry-run] -g <arg>")
        assert "\n    --dry-run" in output
        assert "otherwise jsonl" in output


def test_targets() -> None:
    assert target_of("offset:3") == ToOffset(3)
    assert target_of("shift-by:-3") == ShiftBy(-3)
    assert time_of("1795247482637") == time_of("2026-11-21T07:51:22.637Z")
    assert time_of("2026-11-21#07:51:22:637") == time_of("2026-11-21T07:51:22.637")


def test_unknown_queues_and_topics_are_named(run: Run, topic: str, group: str) -> None:
    line = f"offsets reset -g {group} --to latest --yes"
    code, _, errors = run(f"{line} -t {topic} -q broker-a:7")
    assert (code, f"topic {topic!r} has no queue broker-a:7" in errors) == (1, True)
    code, _, errors = run(f"{line} -t NoSuchTopic")
    assert (code, "no route for topic 'NoSuchTopic'" in errors) == (1, True)
    code, _, errors = run(f"offsets copy -s nobody -d {group} -t {topic} --yes")
    assert (code, "'nobody' has no committed offset" in errors) == (1, True)


def test_the_lag_of_a_group(run: Run, topic: str, group: str) -> None:
    code, rows, errors = run(f"lag -g {group} -t {topic}")
    (row,) = rows
    assert (code, errors) == (0, "")
    assert (row["lag"], row["maxOffset"], row["consumerOffset"]) == (6, 10, 4)
    assert row["lagMs"] >= 0
    run(f"offsets reset -g {group} -t {topic} --to latest --yes")
    (row,) = run(f"lag -g {group} -t {topic}")[1]
    assert (row["lag"], row["lagMs"]) == (0, 0)


def test_a_lag_is_never_negative(run: Run, mq_broker: Standalone, topic: str, group: str) -> None:
    with Admin(mq_broker.namesrv) as admin:
        admin.offsets.commit(group, MessageQueue(topic, "broker-a", 0), 99)
    (row,) = run(f"lag -g {group} -t {topic} --total")[1]
    assert row == {"group": group, "topic": topic, "lag": 0, "lagMs": 0}


def test_the_lag_of_all_groups(run: Run, topic: str, group: str) -> None:
    code, rows, _ = run("lag")
    assert (code, [row["lag"] for row in rows if row["topic"] == topic]) == (0, [6])


@pytest.fixture
def dead(mq_broker: Standalone) -> tuple[str, str]:
    """A group with 3 dead letters of a topic."""
    topic = mq_broker.topic(queues=1)
    group = f"dead_{topic}"
    with Admin(mq_broker.namesrv) as admin:
        for name in (f"%DLQ%{group}", f"%RETRY%{group}"):
            admin.topics.create(name, 1)
    with Producer(mq_broker.namesrv) as producer:
        for number in range(3):
            letter = Message(f"%DLQ%{group}", b"%d" % number, keys=f"key{number}")
            letter.properties |= {"RETRY_TOPIC": topic, "ORIGIN_MESSAGE_ID": f"first{number}"}
            producer.send(letter)
    mq_broker.wait_dispatched()
    return group, topic


def retried(mq_broker: Standalone, group: str) -> list[tuple[bytes, str | None, int]]:
    """The messages of a group's retry topic."""
    mq_broker.wait_dispatched()
    with Admin(mq_broker.namesrv) as admin:
        queue = MessageQueue(f"%RETRY%{group}", "broker-a", 0)
        return [
            (message.body, message.properties.get("RETRY_TOPIC"), message.reconsume_times)
            for message in admin.messages.read(queue, 0).messages
        ]


def test_dead_letters_are_listed_and_peeked(run: Run, dead: tuple[str, str]) -> None:
    group, topic = dead
    (row,) = [row for row in run("dlq list")[1] if row["group"] == group]
    assert (row["topic"], row["messages"], row["waiting"]) == (f"%DLQ%{group}", 3, 3)
    assert row["lastTimestamp"] > 0
    _, rows, _ = run(f"dlq peek -g {group} --count 2")
    assert [(row["body"], row["originTopic"], row["keys"]) for row in rows] == [
        ("0", topic, "key0"),
        ("1", topic, "key1"),
    ]


def test_dead_letters_are_redriven_once(
    run: Run, mq_broker: Standalone, dead: tuple[str, str]
) -> None:
    group, topic = dead
    line = f"dlq redrive -g {group}"
    assert [row["body"] for row in run(f"{line} --count 2 --dry-run")[1]] == ["0", "1"]
    assert retried(mq_broker, group) == []
    assert [row["body"] for row in run(f"{line} --count 2 --yes")[1]] == ["0", "1"]
    assert [row["body"] for row in run(f"{line} --yes")[1]] == ["2"]
    assert run(f"{line} --yes")[:2] == (0, [])
    assert retried(mq_broker, group) == [(b"%d" % number, topic, 0) for number in range(3)]
    (row,) = [row for row in run("dlq list")[1] if row["group"] == group]
    assert (row["messages"], row["waiting"]) == (3, 0)
    assert len(run(f"{line} --again --yes")[1]) == 3
    assert len(run(f"{line} --again --count 1 --yes")[1]) == 1
    (row,) = [row for row in run("dlq list")[1] if row["group"] == group]
    assert row["waiting"] == 0, "what was redriven once does not wait again"


def test_chosen_dead_letters_are_redriven(
    run: Run, mq_broker: Standalone, dead: tuple[str, str]
) -> None:
    group, topic = dead
    chosen = run(f"dlq peek -g {group}")[1][1]["offsetMsgId"]
    code, rows, _ = run(f"dlq redrive -g {group} -i {chosen} --yes")
    assert (code, [row["body"] for row in rows]) == (0, ["1"])
    assert retried(mq_broker, group) == [(b"1", topic, 0)]
    assert len(run(f"dlq peek -g {group}")[1]) == 3, "the other messages wait as before"


def test_a_dead_letter_topic_is_purged(
    run: Run, mq_broker: Standalone, dead: tuple[str, str]
) -> None:
    group, _ = dead
    run(f"dlq redrive -g {group} --count 2 --yes")
    code, (row,), errors = run(f"dlq purge -g {group} --dry-run")
    assert (code, row["messages"], row["waiting"], row["brokerAddrs"]) == (0, 3, 1, [])
    code, (row,), errors = run(f"dlq purge -g {group} --yes")
    assert (code, row["brokerAddrs"]) == (0, [mq_broker.broker_address])
    assert "the records stay in the brokers' commit logs until retention" in errors
    code, _, errors = run(f"dlq peek -g {group}")
    assert (code, f"%DLQ%{group}" in errors) == (1, True)
    queue = MessageQueue(f"%DLQ%{group}", "broker-a", 0)
    with Admin(mq_broker.namesrv) as admin:
        admin.topics.create(queue.topic, 1)
        assert not admin.offsets.committed(REDRIVE_GROUP, queue), "a new topic begins at 0"


EFFECTS = {
    "offsets reset -g {group} -t {topic} --to latest": "to the end of topic {topic}: 6 messages are"
    " skipped, 0 are consumed again\n(broker-a:0 4 -> 10)",
    "offsets skip -g {group} -t {topic} --count 2": "let group {group} skip messages",
    "offsets copy -s {group} -d other -t {topic}": "give group other the offsets of group {group}",
}


@pytest.mark.parametrize("line", EFFECTS)
def test_a_confirmation_shows_the_effect(
    line: str, mq_broker: Standalone, topic: str, group: str
) -> None:
    assert EFFECTS[line].format(topic=topic, group=group) in effect_of(
        mq_broker, line.format(topic=topic, group=group)
    )


def test_a_confirmation_shows_the_dead_letters(
    mq_broker: Standalone, dead: tuple[str, str]
) -> None:
    group, _ = dead
    redrive = effect_of(mq_broker, f"dlq redrive -g {group} --count 2")
    assert f"send 2 dead letters to group {group} again; no other group gets them" in redrive
    purge = effect_of(mq_broker, f"dlq purge -g {group}")
    assert f"delete topic %DLQ%{group} with 3 messages, of which 3 were not redriven" in purge
    assert "until retention deletes the log files" in purge


def effect_of(mq_broker: Standalone, line: str) -> str:
    """The effect that a command would show on a terminal."""
    first, second, *words = line.split()
    command = command_of(f"{first} {second}")
    assert command.effect is not None
    effect = command.effect

    async def say() -> str:
        async with AsyncAdmin(mq_broker.namesrv) as admin:
            return await effect(admin, command.parse(words))

    return asyncio.run(say())
