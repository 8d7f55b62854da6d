"""mqadmin's commands about topics and messages: Java's mqadmin and ours print the same against
Java's servers, and ours prints the same against ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mqclient import Message, MessageQueue, Producer, Trace
from scripts.java_rocketmq import prepare_home
from tests.interop.clusters import Cluster
from tests.interop.contents import Server
from tests.interop.java_driver import JavaConsumer, JavaDriver
from tests.interop.java_mqadmin import ALONE, has_failed, run_alone, run_ours
from tests.interop.masks import masked
from tests.waiting import answer_of, until

TOPIC, GROUP, TRACES = "MessageTopic", "message_group", "MessageTraces"
READING = """\
topicStatus -t MessageTopic
topicClusterList -t MessageTopic
allocateMQ -t MessageTopic -i 10.0.0.1,10.0.0.2,10.0.0.3
queryMsgByKey -t MessageTopic -k shared
queryMsgByUniqueKey -i {unique_id} -t MessageTopic
queryMsgByUniqueKey -i {unique_id} -t MessageTopic -a
queryMsgByOffset -t MessageTopic -b broker-a -i 0 -o 1
queryMsgById -i {offset_id}
queryMsgById -i {offset_id},{offset_id}
queryMsgTraceById -i {traced_id} -t MessageTraces
printMsg -t MessageTopic
printMsg -t MessageTopic -s TagB -d false
printMsg -t MessageTopic -s NoSuchTag
printMsg -t MessageTopic -b {middle_ms} -e 2100-01-01#00:00:00:000
printMsgByQueue -t MessageTopic -a broker-a -i 0 -p true -d true -f true
printMsgByQueue -t MessageTopic -a broker-a -i 0 -p true -c ISO-8859-1 -d true
printMsgByQueue -t MessageTopic -a broker-a -i 0 -f true -s NoSuchTag
consumeMessage -t MessageTopic -b broker-a -i 0
consumeMessage -t MessageTopic -b broker-a -i 0 -o 1000
consumeMessage -t MessageTopic -b broker-a -i 0 -s {middle_ms}
consumeMessage -t MessageTopic -c 3
queryCq -t MessageTopic -q 0 -i 0 -c 3 -b {broker} -g message_group
queryCq -t MessageTopic -q 0 -i 0
""".splitlines()
CHANGING = """\
queryMsgById -i {offset_id} -g message_group -d {client}
queryMsgByUniqueKey -i {unique_id} -t MessageTopic -g message_group -d {client}
queryMsgById -i {offset_id} -s true
queryMsgById -i {offset_id} -s true -u unit
sendMessage -t MessageTopic -p swept -k sent -c TagA -b broker-a -i 1
sendMessage -t MessageTopic -p swept
sendMsgStatus -b broker-a -s 32 -c 3
checkMsgSendRT -t MessageTopic -a 3 -s 16
updateOrderConf -t MessageTopic -m put -v broker-a:4
updateOrderConf -t MessageTopic -m get
updateOrderConf -t MessageTopic -m delete
updateTopicPerm -b {broker} -t MessageTopic -p 6
updateTopicPerm -b 127.0.0.1:1 -t MessageTopic -p 4
updateTopicPerm -c DefaultCluster -t MessageTopic -p 6
deleteTopic -c DefaultCluster -t NoSuchTopic
deleteTopic -c DefaultCluster -t MessageTopic
""".splitlines()
LINES = READING + CHANGING
ROWLESS = ("updateTopicPerm", "consumeMessage -t MessageTopic -b broker-a -i 0 -o 1000")
"""Lines without rows; so have those with NoSuchTag."""
MASKS = [
    (r"\d+\.\d+\.\d+\.\d+@\S+", "CLIENT"),
    (r"\brt=\d+ms|(?<=true )\d+$|(?<=Avg RT: )[\d.]+|(?<=spentTimeMills=)\d+", "RATE"),
    (r"(?<=originalMsgId=)[0-9A-F]{32}", "ID "),
    (r"(?<=queueOffset=)\d+(?=\]$)", "OFFSET"),
    (r"^(broker-a) \d (?=SEND_OK)", r"\1 N "),
    (r"(?<=messageQueue=MessageQueue \[topic=MessageTopic, brokerName=broker-a, queueId=)\d", "N"),
    (r"/[\w./-]*/msgbodys/", "FOLDER/"),
]
ACROSS = [
    (r"\b1[5-9]\d{11}\b", "TIME"),
    (r"(?<=commitLogOffset=)\d+|(?<=physicOffset=)\d+|(?<=CommitLog Offset: )\d+", "PLACE"),
    (r"\b\d+ms\b", "DURATION"),
    (r"(?<=subVersion\":)\d+", "VERSION"),
    (r":\d{4,5}\b", ":PORT"),
    (r"FOLDER/\w+", "FILE"),
]
"""What differs between two clusters; so does which messages were stored in one millisecond."""


class Output(NamedTuple):
    """What one command printed. rows: our JSON lines."""

    theirs: str
    ours: str
    rows: list[dict[str, Any]]


class Filled:
    """A cluster with messages of each kind, an online group, and a traced message."""

    def __init__(self, cluster: Cluster, driver: JavaDriver, home: Path) -> None:
        self._cluster, self._driver, self._home = cluster, driver, prepare_home(home)
        for topic in (TOPIC, TRACES):
            cluster.create_topic(driver, topic)
        cluster.create_topic(driver, f"%RETRY%{GROUP}", queues=1)
        self._fill()
        self.consumer: JavaConsumer = driver.consume(cluster.namesrv, GROUP, TOPIC)
        self.consumer.await_messages(8)
        self._await_committed()
        members = json.loads(self.ours("consumerConnection -g message_group", "jsonl"))
        self._words["client"] = members["members"][0]["clientId"]

    def _fill(self) -> None:
        messages = [
            Message(TOPIC, b"plain", tags="TagA", keys="shared first"),
            Message(TOPIC, "naïve ☕".encode(), tags="TagB", keys="shared"),
            Message(TOPIC, bytes(range(256)), properties={"a": "1", "empty": "x", "é": "ü"}),
            Message(TOPIC, b"x" * 5000, tags="TagB", flag=7),
        ]
        with Producer(
            self._cluster.namesrv, group="message_sends", trace=Trace(TRACES)
        ) as producer:
            for queue_id in range(2):
                queue = MessageQueue(TOPIC, "broker-a", queue_id)
                sent = [producer.send(message, queue=queue) for message in messages]
        with Server(self._cluster.broker) as server:
            assert until(server.is_dispatched)
            assert until(lambda: server.length(TRACES) > 0)
            assert until(server.is_dispatched)
        self._words = {
            "broker": self._cluster.broker,
            "offset_id": sent[0].offset_msg_id,
            "unique_id": sent[1].msg_id,
            "traced_id": sent[1].msg_id,
            "client": "",
        }
        row = json.loads(self.ours(f"queryMsgById -i {sent[2].offset_msg_id}", "jsonl"))
        self._words["middle_ms"] = str(row["storeTimestamp"])

    def _await_committed(self) -> None:
        words = ("consumerProgress", "-g", GROUP, "-n", self._cluster.namesrv)

        def is_committed(text: str) -> bool:
            return f"%RETRY%{GROUP}" in text and "Diff Total: 0" in text

        answer_of(lambda: self._driver.admin(*words), is_committed, 120.0)

    def run(self, line: str, *, with_java: bool) -> Output:
        theirs = self._theirs(line) if with_java else ""
        if line.startswith("updateTopicPerm -c"):  # the first of the two makes the change
            return Output(theirs, self.ours(line, "rocketmq"), [])
        rows = [json.loads(row) for row in self.ours(line, "jsonl").splitlines()]
        return Output(theirs, self.ours(line, "rocketmq"), rows)

    def _theirs(self, line: str) -> str:
        words = self._filled(line)
        if not line.startswith(ALONE):
            return self._driver.admin(*words)
        return run_alone(self._home, *words)

    def _filled(self, line: str) -> list[str]:
        return [*line.format(**self._words).split(), "-n", self._cluster.namesrv]

    def ours(self, line: str, form: str) -> str:
        return run_ours(*self._filled(line), form=form)


def _outputs(
    cluster: Cluster, driver: JavaDriver, home: Path, *, with_java: bool
) -> dict[str, Output]:
    running = Filled(cluster, driver, home)
    try:
        return {line: running.run(line, with_java=with_java) for line in LINES}
    finally:
        running.consumer.stop()


@pytest.fixture(scope="module")
def at_java(
    java_cluster: Cluster, java_driver: JavaDriver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Output]]:
    home = tmp_path_factory.mktemp("messages")
    yield _outputs(java_cluster, java_driver, home, with_java=True)


@pytest.fixture(scope="module")
def at_ours(
    our_cluster: Cluster, java_driver: JavaDriver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Output]]:
    home = tmp_path_factory.mktemp("messages")
    yield _outputs(our_cluster, java_driver, home, with_java=False)


def shown(line: str, text: str, masks: list[tuple[str, str]]) -> list[str]:
    """The compared part of a text. Only what reads shows ids and times that do not change."""
    text = masked(text) if line in CHANGING or masks is not MASKS else text
    for pattern, word in masks:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text.rstrip("\n").split("\n")


@pytest.mark.parametrize("line", LINES)
def test_our_mqadmin_prints_what_java_s_prints(line: str, at_java: dict[str, Output]) -> None:
    assert not has_failed(at_java[line].theirs), at_java[line].theirs
    theirs, ours = (shown(line, text, MASKS) for text in at_java[line][:2])
    assert ours == theirs


@pytest.mark.parametrize("line", [line for line in LINES if "middle_ms" not in line])
def test_our_mqadmin_prints_the_same_of_our_servers(
    line: str, at_java: dict[str, Output], at_ours: dict[str, Output]
) -> None:
    of_java, of_ours = (shown(line, side[line].ours, MASKS + ACROSS) for side in (at_java, at_ours))
    assert of_ours == of_java


@pytest.mark.parametrize("line", LINES)
def test_rows_have_the_same_fields_at_both(
    line: str, at_java: dict[str, Output], at_ours: dict[str, Output]
) -> None:
    fields = [{tuple(row) for row in side[line].rows} for side in (at_java, at_ours)]
    if not line.startswith(ROWLESS) and "NoSuchTag" not in line:
        assert len(fields[0]) == 1
    assert fields[1] == fields[0]
