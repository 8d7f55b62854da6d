"""Commands about brokers, NameServers, groups, offsets: wrong use, failures, what they destroy."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from mqadmin import main
from mqadmin.catalogue import command_of
from mqadmin.command import UsageError
from mqadmin.commands.offset.reset_offset_by_time import time_of
from mqadmin.targets import on_each
from mqclient import Admin as BlockingAdmin
from mqclient import Message, Producer
from mqclient.admin import Admin
from mqclient.errors import UnreachableError
from mqcommon.message import MessageQueue
from mqserver import Standalone

NOWHERE = "127.0.0.1:1"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(mq_broker: Standalone, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command at our broker: exit code, output, errors."""

    def run_one(line: str, form: str = "rocketmq") -> tuple[int, str, str]:
        words = [*shlex.split(line), "-n", mq_broker.namesrv, "--output", form]
        code = main(words)
        output = capsys.readouterr()
        return code, output.out, output.err

    return run_one


@pytest.fixture
def consumed(mq_broker: Standalone) -> tuple[str, str]:
    """A topic with 5 messages and a group that has committed 2 of them."""
    topic = mq_broker.topic(queues=1)
    group = f"group_of_{topic}"
    with Producer(mq_broker.namesrv) as producer:
        for number in range(5):
            producer.send(Message(topic, b"%d" % number))
        mq_broker.wait_dispatched()
    with BlockingAdmin(mq_broker.namesrv) as admin:
        admin.offsets.commit(group, MessageQueue(topic, "broker-a", 0), 2)
    return topic, group


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("updateBrokerConfig -k a -v b", "give a broker or a cluster: -b (brokerAddr) or -c"),
        ("updateBrokerConfig -b h:1 -k a", "Missing required option: v"),
        ("getBrokerConfig", "give a broker or a cluster"),
        ("updateSubGroup -g g", "give a broker or a cluster"),
        ("updateSubGroup -b h:1 -g g -r many", "--retryMaxTimes must be a whole number"),
        ("deleteSubGroup -b h:1", "Missing required option: g"),
        ("exportMetadata -b h:1", "say what to export of a broker: -t (topic) or -g"),
        ("exportMetadata", "give a broker or a cluster"),
        ("exportConfigs", "Missing required option: c"),
        ("resetOffsetByTime -g g -t t -s yesterday", "--timestamp must be now, milliseconds"),
        ("consumerConnection", "Missing required option: g"),
        ("wipeWritePerm -b ''", "--brokerName must not be empty"),
        ("producer", "Missing required option: b"),
    ],
)
def test_wrong_use_is_exit_code_2(run: Run, line: str, complaint: str) -> None:
    code, output, errors = run(line)
    assert (code, output) == (2, "")
    assert complaint in errors


@pytest.mark.parametrize(
    "line",
    [
        f"updateBrokerConfig -b {NOWHERE} -k a -v b",
        f"getBrokerConfig -b {NOWHERE}",
        f"cleanExpiredCQ -b {NOWHERE}",
        f"producer -b {NOWHERE}",
        f"updateSubGroup -b {NOWHERE} -g g",
        f"deleteSubGroup -b {NOWHERE} -g g",
        f"consumerConnection -b {NOWHERE} -g g",
        f"exportMetadata -b {NOWHERE} -t -f .",
    ],
)
@pytest.mark.parametrize("form", ["rocketmq", "json"])
def test_a_broker_that_cannot_be_reached_is_exit_code_3(run: Run, line: str, form: str) -> None:
    code, output, errors = run(line, form)
    assert (code, output) == (3, "")
    assert NOWHERE in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("updateBrokerConfig -c Other -k a -v b", "cluster 'Other' does not exist"),
        ("getBrokerConfig -c Other", "clusters: DefaultCluster"),
        ("cleanUnusedTopic -c Other", "cluster 'Other' does not exist"),
        ("exportMetrics -c Other", "cluster 'Other' does not exist"),
        ("consumerConnection -g nobody_here", "nobody_here"),
        ("consumerStatus -g nobody_here", "nobody_here"),
        ("producerConnection -g nobody_here -t TBW102", "nobody_here"),
        ("getConsumerConfig -g nobody_here", "no broker has a configuration of group"),
        ("cloneGroupOffset -s nobody_here -d g -t TBW102", "has no committed offset in topic"),
        ("resetOffsetByTime -g g -t NoSuchTopic -s 0", "no route for topic 'NoSuchTopic'"),
    ],
)
def test_what_does_not_exist_is_named_in_one_line(run: Run, line: str, words: str) -> None:
    code, output, errors = run(line)
    assert (code, output) == (1, "")
    assert words in errors.splitlines()[0]


def test_a_refusal_of_the_broker_is_exit_code_4(mq_broker: Standalone, run: Run) -> None:
    line = f"updateBrokerConfig -b {mq_broker.broker_address} -k listenPort -v 1"
    code, output, errors = run(line)
    assert (code, output) == (4, "")
    assert "NO_PERMISSION" in errors


def test_a_change_of_a_cluster_goes_on_after_a_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[str] = []

    async def change(address: str) -> None:
        asked.append(address)
        if address == "b:1":
            raise UnreachableError("b:1 is down", address)

    with pytest.raises(UnreachableError, match="b:1 is down"):
        asyncio.run(on_each(["a:1", "b:1", "c:1"], change))
    assert asked == ["a:1", "b:1", "c:1"]
    assert capsys.readouterr().err == "note: a:1 was changed\nnote: c:1 was changed\n"


DESTRUCTIVE = {
    "cleanExpiredCQ": "delete files of queues whose messages are deleted",
    "cleanUnusedTopic": "delete the queues of topics that do not exist any more",
    "deleteExpiredCommitLog": "older than fileReservedTime",
    "deleteKvConfig -s NS -k key": "which does not exist",
    "wipeWritePerm -b broker-a": "until addWritePerm -b broker-a",
    "deleteSubGroup -c DefaultCluster -g {group} -r true": "%DLQ%{group} with their messages",
    "resetOffsetByTime -g {group} -t {topic} -s now": "3 messages are skipped, 0 are consumed",
    "resetOffsetByTime -g {group} -t {topic} -s 0": "0 messages are skipped, 2 are consumed again",
    "resetOffsetByTime -g new_group -t {topic} -s 0": "0 messages are skipped, 0 are consumed",
    "skipAccumulatedMessage -g {group} -t {topic}": "to the end of topic {topic}: 3 messages",
    "cloneGroupOffset -s {group} -d other -t {topic}": "replace the offsets of group other",
}


@pytest.mark.parametrize("line", DESTRUCTIVE)
def test_a_destructive_command_says_what_it_destroys(
    line: str, consumed: tuple[str, str], mq_broker: Standalone
) -> None:
    topic, group = consumed
    name, *words = line.format(topic=topic, group=group).split()
    command = command_of(name)
    assert command.effect is not None
    effect = command.effect

    async def say() -> str:
        async with Admin(mq_broker.namesrv) as admin:
            return await effect(admin, command.parse(words))

    assert DESTRUCTIVE[line].format(topic=topic, group=group) in asyncio.run(say())


@pytest.mark.parametrize("line", DESTRUCTIVE)
def test_a_destructive_command_needs_an_address(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    assert main(line.format(topic="T", group="g").split()) == 2
    assert "so it needs an address: give -n HOST:PORT" in capsys.readouterr().err


def test_times_of_a_reset() -> None:
    assert time_of("now") == -1
    assert time_of("1795247474637") == 1795247474637
    assert time_of("2026-11-21#07:51:22:637") == 1795247482637
    for wrong in ("2026-11-21", "-2"):
        with pytest.raises(UsageError, match=f"timestamp must .*{wrong}"):
            time_of(wrong)


def test_a_group_without_members_is_moved(run: Run, consumed: tuple[str, str]) -> None:
    topic, group = consumed
    code, output, _ = run(f"resetOffsetByTime -g {group} -t {topic} -s now -f false", "json")
    (row,) = json.loads(output)
    assert (code, row["consumerOffset"], row["offset"]) == (0, 2, 2), "not forward without force"
    code, output, _ = run(f"skipAccumulatedMessage -g {group} -t {topic}", "json")
    (row,) = json.loads(output)
    assert (code, row["consumerOffset"], row["offset"]) == (0, 2, 5)
    run(f"cloneGroupOffset -s {group} -d {group}2 -t {topic}")
    code, output, _ = run(f"resetOffsetByTime -g {group}2 -t {topic} -s 0", "json")
    (row,) = json.loads(output)
    assert (code, row["consumerOffset"], row["offset"]) == (0, 5, 0)


def test_key_values_go_and_come(run: Run) -> None:
    assert run("updateKvConfig -s NS2 -k key -v old", "jsonl")[1] == (
        '{"namespace": "NS2", "key": "key", "value": "old"}\n'
    )
    assert run("deleteKvConfig -s NS2 -k key", "jsonl")[0] == 0


def test_a_file_that_cannot_be_written_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, output, errors = run(f"exportConfigs -c DefaultCluster -f {tmp_path}/file")
    assert (code, output) == (1, "")
    assert f"{tmp_path}/file" in errors
