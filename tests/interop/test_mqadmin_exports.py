"""Java's mqadmin where it writes files or does not end: exportConfigs, exportMetadata,
exportMetrics, clusterRT, startMonitoring, against Java's servers and ours.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mqadmin.commands.group.start_monitoring import START_MONITORING
from mqadmin.report import Stream
from mqclient.aio import Admin
from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from scripts.java_rocketmq import prepare_home
from scripts.server_process import ServerProcess
from tests.interop.clusters import Cluster, Maker
from tests.interop.java_driver import JavaDriver
from tests.interop.java_mqadmin import MQADMIN
from tests.interop.java_servers import java_command
from tests.interop.masks import masked
from tests.waiting import answer_of, until

TOPIC, GROUP = "ExportTopic", "export_group"
MAKERS: tuple[Maker, Maker] = ("java", "ours")
EXPORTS = {"configs": "exportConfigs", "metadata": "exportMetadata", "metrics": "exportMetrics"}
PARTS = {"metadata of topics": "-t", "metadata of groups": "-g"}
WATCHED, SENT, BEHIND, OLD = "watched_group", 5, 3, 50
LOST = "reportDeleteMsgsEvent"
ROUNDS = 3
DEADLINE = 190.0
OWN = {"exportTime", "commitLogDiskRatio", "consumeQueueDiskRatio", "clientInfo", "dataVersion"}
"""Times, shares of this disk, and who happens to be connected."""
RATE = re.compile(r"Tps$|messageAverageSize")


class Run(NamedTuple):
    """Output of the commands for one cluster. files: by kind; rounds: lines of clusterRT;
    watched: what startMonitoring logged in its first round; ours: what our own printed.
    """

    printed: dict[str, str]
    files: dict[str, Any]
    rounds: list[str]
    watched: list[str]
    ours: list[str]


def run_of(home: Path, maker: Maker) -> Run:
    with ExitStack() as stack:
        cluster = Cluster(home / "cluster", maker, maker)
        stack.callback(cluster.stop)
        driver = JavaDriver(home / "driver")
        stack.callback(driver.kill)
        cluster.create_topic(driver, TOPIC)
        made = driver.admin(
            "updateSubGroup", "-n", cluster.namesrv, "-b", cluster.broker, "-g", GROUP, "-r", "3"
        )
        assert "success" in made, made
        printed, files = exported(home / "export", cluster, driver)
        stack.callback(fall_behind(cluster).close)
        monitor = endless(home / "monitor", "startMonitoring", "-n", cluster.namesrv)
        stack.callback(monitor.kill)
        words = f"clusterRT -n {cluster.namesrv} -a 2 -s 16 -i 1".split()
        rounds = first_rounds(lambda: endless(home / "rt", *words))
        watched = first_watch(home / "monitor")
        return Run(printed, files, rounds, watched, our_watch(cluster))


def our_watch(cluster: Cluster) -> list[str]:
    """The first round of our startMonitoring, and a line about lost messages."""
    with Probe(cluster.broker, timeout=90.0) as line:
        where = {"topic": "OFFSET_MOVED_EVENT", "queueId": "0"}
        known = {"consumerGroup": "__MONITOR_CONSUMER", "commitOffset": "0"}
        # Java's command may have committed what it read.
        assert line.call(Frame(Code.UPDATE_CONSUMER_OFFSET, where | known)).code == 0

    async def read() -> list[str]:
        found: list[str] = []
        async with Admin(cluster.namesrv) as admin:
            result = await START_MONITORING.run(admin, START_MONITORING.parse([]))
            assert isinstance(result, Stream)
            async for piece in result.pieces:
                found.append(str(piece.text))
                if LOST in found[-1]:
                    break
        return found

    return shown_watch(asyncio.run(asyncio.wait_for(read(), DEADLINE)))


def fall_behind(cluster: Cluster) -> Probe:
    """A group that is online and behind, and a pull from beyond a queue's end: what monitoring
    reports. Its member is too old for a request for its status.
    """
    line = Probe(cluster.broker, timeout=90.0)
    subscription = {"topic": TOPIC, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    member = {
        "groupName": WATCHED, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [subscription],
        "unitMode": False,
    }  # fmt: skip
    body = {"clientID": "watched", "producerDataSet": [], "consumerDataSet": [member]}
    calls = [Frame(Code.HEART_BEAT, {}, json.dumps(body).encode(), version=OLD)]
    letters = {"a": "p", "b": TOPIC, "c": "TBW102", "d": "4", "f": "0", "g": "1", "h": "0"}
    send = Frame(Code.SEND_MESSAGE_V2, {**letters, "e": "0", "i": "", "m": "false"}, b"x")
    calls += [send] * SENT
    where = {"topic": TOPIC, "queueId": "0"}
    committed = {"consumerGroup": WATCHED, "commitOffset": str(SENT - BEHIND)}
    calls.append(Frame(Code.UPDATE_CONSUMER_OFFSET, where | committed))
    for call in calls:
        reply = line.call(call)
        assert reply.code == 0, reply
    await_dispatched(line, where)
    beyond = {
        "consumerGroup": "TOOLS_CONSUMER", "queueOffset": "1000", "maxMsgNums": "32",
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*",
        "subVersion": "0",
    }  # fmt: skip
    assert line.call(Frame(Code.PULL_MESSAGE, where | beyond)).code == 21
    return line


def await_dispatched(line: Probe, where: dict[str, str]) -> None:
    """Wait until all messages are in the queue: the reply to the pull shows the queue's end."""
    ask = Frame(Code.GET_MAX_OFFSET, where)
    assert until(lambda: line.call(ask).fields["offset"] == str(SENT), DEADLINE)


def endless(home: Path, *words: str) -> ServerProcess:
    """A command in its own JVM, which the test kills after enough output."""
    prepare_home(home)
    return ServerProcess(java_command(home, MQADMIN, *words), cwd=home)


def exported(
    folder: Path, cluster: Cluster, driver: JavaDriver
) -> tuple[dict[str, str], dict[str, Any]]:
    """The output and the files of the export commands."""
    printed, files = {}, {}
    commands = {kind: (kind, command, ()) for kind, command in EXPORTS.items()}
    commands |= {kind: ("metadata", "exportMetadata", (flag,)) for kind, flag in PARTS.items()}
    for kind, (name, command, flags) in commands.items():
        here = folder / kind.replace(" ", "_")
        where = ("-n", cluster.namesrv, "-c", "DefaultCluster", "-f", str(here))
        text = driver.admin(command, *where, *flags)
        printed[kind] = masked(text).replace(str(folder), "FOLDER")
        made = sorted(path.name for path in here.iterdir())
        files[kind] = {path: json.loads((here / path).read_text()) for path in made}
        assert made, f"{command} wrote no {name}: {text}"
    return printed, files


def first_rounds(start: Callable[[], ServerProcess]) -> list[str]:
    """The first lines of clusterRT, without their times; an answer that is late ends it."""
    processes = [start()]

    def rows() -> list[str]:
        if processes[-1].has_ended:
            processes[-1].kill()
            processes.append(start())
        return rows_of(processes[-1])

    try:
        lines = answer_of(rows, lambda lines: len(lines) > ROUNDS, DEADLINE)
    finally:
        processes[-1].kill()
    return [re.sub(r"\d+\.\d\d|NaN", "RT", line) for line in lines[: ROUNDS + 1]]


def rows_of(process: ServerProcess) -> list[str]:
    rows = (re.sub(r" +", " ", line).strip() for line in process.output.splitlines())
    return [row for row in rows if row.startswith(("#Cluster", "DefaultCluster"))]


def first_watch(home: Path) -> list[str]:
    """Log lines of the first whole round of startMonitoring, after 20 s, and then the first line
    about lost messages, which may come at any time.
    """

    def logged() -> str:
        text = "".join(path.read_text() for path in home.rglob("rocketmq_client.log"))
        return text[: text.rfind("\n") + 1]  # the last line may be half written

    text = answer_of(
        logged, lambda text: "Execute one round monitor work" in text and LOST in text, DEADLINE
    )
    said = [line.partition("[MONITOR]")[2] for line in text.splitlines() if "[MONITOR]" in line]
    # The command's own consumer may or may not have committed by then.
    kept = [line for line in said if "__MONITOR_CONSUMER" not in line]
    lost = [line for line in kept if LOST in line]
    first = [line for line in kept if LOST not in line]
    # If the report of lost messages is late, a second round has begun; if an answer was late, the
    # first did not end.
    end = next(place for place, line in enumerate(first) if "endRound" in line)
    begin = max(place for place, line in enumerate(first[:end]) if "beginRound" in line)
    return shown_watch([*first[begin : end + 1], *lost[:1]])


def shown_watch(lines: list[str]) -> list[str]:
    """The compared part of lines of monitoring."""
    time_like = re.compile(r"(?<=Mills=)\d+|(?<=eventTimestamp=)\d+")
    told = (line.removeprefix("[MONITOR]") for line in lines if "__MONITOR_CONSUMER" not in line)
    return [time_like.sub("N", masked(line)).strip(" =") for line in told]


@pytest.fixture(scope="module")
def runs(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Run]]:
    """Java's cluster and ours, at the same time."""
    homes = [tmp_path_factory.mktemp(f"exports_{maker}") for maker in MAKERS]
    with ThreadPoolExecutor(2) as pool:
        yield list(pool.map(run_of, homes, MAKERS))


def shown(value: Any) -> Any:
    """The compared part of a file's content."""
    if not isinstance(value, dict):
        return value
    return {
        key: "OWN" if key in OWN or RATE.search(key) else shown(one) for key, one in value.items()
    }


@pytest.mark.parametrize("kind", [*EXPORTS, *PARTS])
def test_exports_hold_the_same(runs: list[Run], kind: str) -> None:
    theirs, ours = runs
    assert ours.printed[kind] == theirs.printed[kind]
    assert "success" in ours.printed[kind]
    assert shown(ours.files[kind]) == shown(theirs.files[kind])


def test_what_was_made_is_exported(runs: list[Run]) -> None:
    (metadata,) = runs[1].files["metadata"].values()
    assert metadata["topicConfigTable"][TOPIC]["writeQueueNums"] == 4
    assert metadata["subscriptionGroupTable"][GROUP]["retryMaxTimes"] == 3


def test_send_times_of_clusters_are_shown_round_after_round(runs: list[Run]) -> None:
    theirs, ours = (run.rounds for run in runs)
    assert ours == theirs
    assert ours[1:] == ["DefaultCluster broker-a RT 2 0"] * ROUNDS


def test_monitoring_says_the_same_in_its_first_round(runs: list[Run]) -> None:
    theirs, ours = (run.watched for run in runs)
    assert ours == theirs
    begin, *told, end, lost = ours
    assert (begin, end) == ("beginRound", "endRound")
    behind = f"topic={TOPIC}, undoneMsgsTotal={BEHIND}, undoneMsgsSingleMQ={BEHIND}, "
    assert any(f"UndoneMsgs [consumerGroup={WATCHED}, {behind}" in line for line in told)
    assert f"offsetRequest=1000, offsetNew={SENT}]" in lost


@pytest.mark.parametrize("side", range(2), ids=MAKERS)
def test_our_monitoring_says_what_java_s_says(runs: list[Run], side: int) -> None:
    assert runs[side].ours == runs[side].watched
