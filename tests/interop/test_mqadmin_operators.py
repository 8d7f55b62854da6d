"""mqadmin's commands about brokers, NameServers, groups, offsets and exports: Java's mqadmin and
ours print the same against Java's servers, and ours prints the same against ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.interop.clusters import Cluster
from tests.interop.java_driver import JavaConsumer, JavaDriver
from tests.interop.java_mqadmin import run_ours
from tests.interop.masks import masked
from tests.waiting import answer_of, until

TOPIC, ONLINE, OFFLINE = "OperatorTopic", "operator_online", "operator_offline"
LINES = """\
updateSubGroup -c DefaultCluster -g operator_made
updateSubGroup -b {broker} -g operator_made2 -s true -m false -d true -q 2 -r 5 -i 0 -w 1 -a true
getConsumerConfig -g operator_made2
consumerConnection -g operator_online
consumerConnection -g operator_online -b {broker}
consumerStatus -g operator_online
consumerStatus -g operator_online -i {client}
producerConnection -g interop_sends -t OperatorTopic
producer -b {broker}
resetOffsetByTime -g operator_online -t OperatorTopic -s 0
resetOffsetByTime -g operator_online -t OperatorTopic -s now
skipAccumulatedMessage -g operator_online -t OperatorTopic
resetOffsetByTime -g operator_offline -t OperatorTopic -s 0
resetOffsetByTime -g operator_offline -t OperatorTopic -s now -f false
resetOffsetByTime -g operator_offline -t OperatorTopic -s 2020-01-01#00:00:00:000
skipAccumulatedMessage -g operator_offline -t OperatorTopic
cloneGroupOffset -s operator_offline -d operator_clone -t OperatorTopic
getBrokerConfig -b {broker}
getBrokerConfig -c DefaultCluster
updateBrokerConfig -b {broker} -k fileReservedTime -v 48
updateBrokerConfig -c DefaultCluster -k fileReservedTime -v 72
getNamesrvConfig
updateNamesrvConfig -k orderMessageEnable -v false
updateKvConfig -s NS1 -k k1 -v v1
deleteKvConfig -s NS1 -k k1
wipeWritePerm -b broker-a
addWritePerm -b broker-a
cleanExpiredCQ -b {broker}
cleanExpiredCQ
cleanUnusedTopic -c DefaultCluster
deleteExpiredCommitLog -c DefaultCluster
exportConfigs -c DefaultCluster -f {folder}
exportMetrics -c DefaultCluster -f {folder}
exportMetadata -c DefaultCluster -f {folder}
exportMetadata -c DefaultCluster -f {folder}/special -s
exportMetadata -b {broker} -t -f {folder}
exportMetadata -b {broker} -g -f {folder}
deleteSubGroup -b {broker} -g operator_made2 -r true
deleteSubGroup -c DefaultCluster -g operator_made
""".splitlines()
MOVING = ("resetOffset", "skipAccumulated")
FIGURES = ("getBrokerConfig", "getNamesrvConfig")
"""Commands whose keys are not the same on our servers, which have settings of their own."""
MASKS = [
    (r"\d+\.\d+\.\d+\.\d+@\S+", "CLIENT"),
    (r"@[0-9a-f]{5,8}\b", "@HASH"),
    (r"\$\$Lambda\S*", "LAMBDA"),
    (r"\b1[5-9]\d{11}\b", "TIME"),
    (r"\b20\d{15}\b|\b20\d{12}\b", "TIME"),
    (r"\b\d+\.\d\d\b( +\d+$)?", "RATE"),
    (r"OK, \d+", "OK, COUNT"),
    (r"/[\w./-]*/", "FOLDER/"),
    (r"(_INNER_TRACE_PRODUCER-\w+-PRODUCE)-\d+", r"\1-NUMBER"),
]
CHANGING = re.compile(
    r'"(exportTime|counter|timestamp|\w*Tps|\w*DiskRatio|messageAverageSize)":"?[\d.E-]+"?'
)


class Output(NamedTuple):
    """What one command printed. rows: our JSON lines."""

    theirs: str
    ours: str
    rows: list[dict[str, Any]]
    files: tuple[str, str]


class Operated:
    """One cluster with a topic, an online group and an offline one, on which all commands ran."""

    def __init__(self, home: Path, cluster: Cluster, driver: JavaDriver) -> None:
        self._home, self._cluster, self._driver = home, cluster, driver
        self._stack = ExitStack()
        cluster.create_topic(driver, TOPIC)
        for queue_id in range(4):
            driver.produce(cluster.namesrv, TOPIC, 3, queueId=queue_id)
        offline = self._consuming(OFFLINE)
        self._await_committed(OFFLINE)
        offline.stop()
        online = self._consuming(ONLINE)
        self._stack.callback(online.stop)
        self._await_committed(ONLINE)
        self._await_offline()
        members = json.loads(self._ours("consumerConnection -g operator_online", "jsonl"))
        self._client = members["members"][0]["clientId"]

    def _consuming(self, group: str) -> JavaConsumer:
        # Without its retry topic, a new consumer would get the retry queue half a minute later.
        self._cluster.create_topic(self._driver, f"%RETRY%{group}", queues=1)
        consumer = self._driver.consume(self._cluster.namesrv, group, TOPIC)
        consumer.await_messages(12)
        return consumer

    def _await_committed(self, group: str) -> None:
        """Wait until the broker has the offsets of all queues; a client commits every 10 s."""
        words = ("consumerProgress", "-g", group, "-n", self._cluster.namesrv)

        def is_committed(text: str) -> bool:
            is_whole = f"%RETRY%{group}" in text and text.count(f"\n{TOPIC}") == 4
            return is_whole and "Diff Total: 0" in text

        answer_of(lambda: self._driver.admin(*words), is_committed, 120.0)

    def _await_offline(self) -> None:
        words = ("consumerConnection", "-g", OFFLINE, "-n", self._cluster.namesrv)
        assert until(lambda: "not online" in self._driver.admin(*words))

    def run(self, line: str) -> Output:
        theirs, ours = (self._home / side for side in ("theirs", "ours"))
        if line.startswith(MOVING):
            self._driver.admin(*self._words(line, theirs))  # both start from the same offsets
        printed = self._driver.admin(*self._words(line, theirs))
        rows = [json.loads(row) for row in self._ours(line, "jsonl").splitlines()]
        return Output(printed, self._ours(line, "rocketmq"), rows, (_files(theirs), _files(ours)))

    def _words(self, line: str, folder: Path) -> list[str]:
        client = getattr(self, "_client", "")
        filled = line.format(broker=self._cluster.broker, client=client, folder=folder)
        return [*filled.split(), "-n", self._cluster.namesrv]

    def _ours(self, line: str, form: str) -> str:
        return run_ours(*self._words(line, self._home / "ours"), form=form)

    def stop(self) -> None:
        self._stack.close()


def _files(folder: Path) -> str:
    """The files that a command has written; the folder is empty afterwards."""
    texts = []
    for path in sorted(folder.rglob("*.json")):
        texts.append(f"{path.relative_to(folder)}\n{path.read_text()}")
        path.unlink()
    return "\n".join(texts)


def _operated(
    factory: pytest.TempPathFactory, cluster: Cluster, driver: JavaDriver
) -> dict[str, Output]:
    home = factory.mktemp("operated")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)  # consumerStatus writes files here
        running = Operated(home, cluster, driver)
        try:
            return {line: running.run(line) for line in LINES}
        finally:
            running.stop()


@pytest.fixture(scope="module")
def at_java(
    java_cluster: Cluster, java_driver: JavaDriver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Output]]:
    yield _operated(tmp_path_factory, java_cluster, java_driver)


@pytest.fixture(scope="module")
def at_ours(
    our_cluster: Cluster, java_driver: JavaDriver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Output]]:
    yield _operated(tmp_path_factory, our_cluster, java_driver)


def shown(line: str, text: str) -> list[str]:
    """The compared part of a text."""
    text = masked(text)
    for pattern, word in MASKS:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    lines = [one.rstrip() for one in text.rstrip("\n").splitlines()]
    if line.startswith("producer -b"):  # in the order of a table that hashes client ids
        return sorted(one for one in lines if "interop_sends" in one)
    return lines


@pytest.mark.parametrize("line", LINES)
def test_our_mqadmin_prints_what_java_s_prints(line: str, at_java: dict[str, Output]) -> None:
    theirs, ours = shown(line, at_java[line].theirs), shown(line, at_java[line].ours)
    assert theirs, "nothing was printed"
    assert ours == theirs


@pytest.mark.parametrize("line", LINES)
def test_our_mqadmin_prints_the_same_of_our_servers(
    line: str, at_java: dict[str, Output], at_ours: dict[str, Output]
) -> None:
    of_java, of_ours = (shown(line, side[line].ours) for side in (at_java, at_ours))
    if line.startswith(FIGURES):
        keys = [{one.partition("=")[0] for one in side} for side in (of_java, of_ours)]
        assert keys[0] <= keys[1]
    else:
        assert of_ours == of_java


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("export")])
def test_our_exports_are_java_s_byte_for_byte(
    line: str, at_java: dict[str, Output], at_ours: dict[str, Output]
) -> None:
    for side in (at_java, at_ours):
        theirs, ours = (CHANGING.sub("CHANGING", text) for text in side[line].files)
        assert theirs
        assert ours == theirs


@pytest.mark.parametrize("line", LINES)
def test_rows_have_the_same_fields_at_both(
    line: str, at_java: dict[str, Output], at_ours: dict[str, Output]
) -> None:
    fields = [{tuple(row) for row in side[line].rows} for side in (at_java, at_ours)]
    assert fields[0]
    assert len(fields[0]) == 1
    assert fields[1] == fields[0]
