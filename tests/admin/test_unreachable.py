"""Servers that do not answer: an error with exit code 3, unless RocketMQ's text has empty cells."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from mqadmin import main
from mqadmin.catalogue import command_of
from mqadmin.commands.group import start_monitoring
from mqadmin.report import Stream
from mqclient.admin import Admin
from mqclient.errors import BrokerError, UnreachableError
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame
from tests.admin.golden import SERVERS, RecordedCluster, connecting_to

LINES = {
    "clusterList": "clusterList",
    "clusterList-more": "clusterList -m",
    "consumerProgress": "consumerProgress",
    "statsAll": "statsAll",
    "topicList-cluster": "topicList -c",
}
BROKER = "127.0.0.1:10911"


class BrokerDown(RecordedCluster):
    """A recorded session whose broker cannot be reached, or refuses every request."""

    def __init__(self, session: str, error: Exception | None = None) -> None:
        super().__init__(session)
        self._error = error or UnreachableError(f"{BROKER} refused the connection", BROKER)

    async def call(self, address: str, request: Frame, timeout: float) -> Frame:
        if SERVERS.get(address) == "broker":
            raise self._error
        return await super().call(address, request, timeout)


def run(cluster: RecordedCluster, line: str, form: str) -> int:
    words = ["-n", "127.0.0.1:9876", "--output", form]
    name, *options = shlex.split(line)
    return main(
        [name, *words, *options],
        connecting_to(cluster),
    )


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
@pytest.mark.parametrize("session", LINES)
def test_a_broker_that_is_down_is_an_error(
    session: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(BrokerDown(session), LINES[session], form) == 3
    output = capsys.readouterr()
    assert f"{BROKER} refused the connection" in output.err
    lines = [line for line in output.out.splitlines() if line != "[]"]
    assert len(lines) == (form == "csv"), "no row but the titles: it would have made-up figures"


@pytest.mark.parametrize("session", LINES)
def test_rocketmqs_text_has_empty_cells(session: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(BrokerDown(session), LINES[session], "rocketmq") == 0
    output = capsys.readouterr()
    assert output.out.startswith("#") and output.err == ""


def test_rows_that_are_whole_come_before_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    class TopicDown(RecordedCluster):
        async def call(self, address: str, request: Frame, timeout: float) -> Frame:
            if SERVERS[address] == "broker" and request.fields.get("topic") == "CliTopic":
                raise UnreachableError(f"{BROKER} refused the connection", BROKER)
            return await super().call(address, request, timeout)

    assert run(RecordedCluster("topicList-cluster"), LINES["topicList-cluster"], "json") == 0
    every = [row["topic"] for row in json.loads(capsys.readouterr().out)]
    assert run(TopicDown("topicList-cluster"), LINES["topicList-cluster"], "json") == 3
    rows = json.loads(capsys.readouterr().out)
    assert [row["topic"] for row in rows] == [topic for topic in every if topic != "CliTopic"]


class StatisticsLost(RecordedCluster):
    """The broker goes down after it has told its configuration."""

    async def call(self, address: str, request: Frame, timeout: float) -> Frame:
        lost = (RequestCode.VIEW_BROKER_STATS_DATA, RequestCode.GET_CONSUMER_CONNECTION_LIST)
        if SERVERS[address] == "broker" and request.code in lost:
            raise UnreachableError(f"{BROKER} refused the connection", BROKER)
        return await super().call(address, request, timeout)


def test_an_export_with_missing_figures_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"exportMetrics -c DefaultCluster -f {tmp_path}"
    assert run(StatisticsLost("exportMetrics"), line, "json") == 3
    output = capsys.readouterr()
    assert json.loads(output.out) == []
    assert f"{BROKER} refused the connection" in output.err
    assert run(StatisticsLost("exportMetrics"), line, "rocketmq") == 0
    output = capsys.readouterr()
    assert output.out == f"export {tmp_path}/metrics.json success\n" and output.err == ""


@pytest.mark.parametrize(("command", "verb"), [("wipeWritePerm", "wipe"), ("addWritePerm", "add")])
def test_each_name_server_has_a_line_about_permissions(
    command: str, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    servers, down = ("127.0.0.1:1", "127.0.0.1:9876"), "nothing listens at 127.0.0.1:1"
    line = f"{command} -b broker-a -n '{';'.join(servers)}'"
    cluster = RecordedCluster(command)
    for form, code in (("rocketmq", 0), ("json", 3)):
        assert run(cluster, line, form) == code
        output = capsys.readouterr()
        assert down in output.err
        if form == "rocketmq":
            place = f"{verb} write perm of broker[broker-a] in name server"
            lines = [f"{place}[{servers[0]}] Failed", f"{place}[{servers[1]}] OK, 35"]
            assert output.out.splitlines() == lines
        else:
            row = {"namesrvAddr": servers[1], "brokerName": "broker-a", "topicCount": 35}
            assert json.loads(output.out) == [row]


@pytest.mark.parametrize(
    ("topic", "session", "words"),
    [
        ("CliTopic", "topicRoute", "an unknown number of messages (no server answers at"),
        ("NoSuchTopic", "topicStatus-unknown", "in every NameServer: 0 messages"),
    ],
)
async def test_a_deletion_does_not_make_up_a_count(topic: str, session: str, words: str) -> None:
    command = command_of("deleteTopic")
    assert command.effect is not None
    async with Admin("127.0.0.1:9876", transport=BrokerDown(session)) as admin:
        effect = await command.effect(admin, command.parse(["-t", topic, "-c", "DefaultCluster"]))
    assert words in effect


async def test_monitoring_notes_a_broker_that_is_down(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start_monitoring, "ROUND_S", 0)
    command = start_monitoring.START_MONITORING
    async with Admin("127.0.0.1:9876", transport=BrokerDown("consumerProgress")) as admin:
        result = await command.run(admin, command.parse([]))
        assert isinstance(result, Stream)
        begun = 0
        async for piece in result.pieces:
            begun += "beginRound" in str(piece.text)
            if begun == 2:
                break
    note = f"note: no server answers at {BROKER}: {BROKER} refused the connection\n"
    assert capsys.readouterr().err == note, "one for each round"


def test_a_refused_cluster_list_is_denied(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = BrokerError(16, "no permission", BROKER)
    assert run(BrokerDown("clusterList", refusal), "clusterList", "json") == 4
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize("form", ["rocketmq", "json"])
@pytest.mark.parametrize("line", LINES.values())
def test_a_name_server_that_is_down_is_an_error(
    line: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*shlex.split(line), "-n", "127.0.0.1:1", "--output", form]
    assert main(words) == 3
    output = capsys.readouterr()
    assert output.out == "" and "127.0.0.1:1" in output.err
