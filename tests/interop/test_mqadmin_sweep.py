"""Every sub-command of Java's mqadmin, one after the other, against Java's servers and ours: they
print the same. (The commands of access control are in test_acl.py.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from scripts.java_rocketmq import prepare_home
from tests.interop.clusters import Cluster, Maker
from tests.interop.contents import Server
from tests.interop.java_driver import JavaConsumer, JavaDriver
from tests.interop.java_mqadmin import ALONE, has_failed, run_alone
from tests.interop.masks import masked
from tests.waiting import answer_of, until

TOPIC, GROUP, OFFLINE = "SweepTopic", "sweep_group", "sweep_offline"
MAKERS: tuple[Maker, Maker] = ("java", "ours")
LINES = """\
clusterList
clusterList -m
topicList
topicList -c
topicClusterList -t SweepTopic
topicRoute -t SweepTopic
topicRoute -t NoSuchTopic
topicStatus -t SweepTopic
topicStatus -t NoSuchTopic
allocateMQ -t SweepTopic -i 10.0.0.1,10.0.0.2,10.0.0.3
brokerConsumeStats -b {broker}
consumerConnection -g sweep_group
consumerConnection -g no_such_group
consumerProgress -g sweep_group
consumerProgress -g sweep_group -s true
consumerProgress -g no_such_group
producerConnection -g no_such_group -t SweepTopic
producer -b {broker}
queryMsgById -i {offset_id}
queryMsgById -i 7F0000010000000100000000000FFFFF
queryMsgByKey -t SweepTopic -k sweep-1
queryMsgByKey -t SweepTopic -k nope
queryMsgByOffset -t SweepTopic -b broker-a -i 0 -o 0
queryMsgByUniqueKey -i {unique_id} -t SweepTopic
queryMsgByUniqueKey -i {unique_id} -t SweepTopic -g sweep_group -d {client}
queryMsgTraceById -i {unique_id}
queryCq -t SweepTopic -q 0 -i 0 -c 3 -b {broker} -g sweep_group
printMsg -t SweepTopic
printMsgByQueue -t SweepTopic -a broker-a -i 0 -p true -d true -f true
consumeMessage -t SweepTopic -b broker-a -i 0 -o 0 -c 2
sendMessage -t SweepTopic -p swept -k cli-sent -c TagA -b broker-a -i 1
sendMsgStatus -b broker-a -s 32 -c 3
checkMsgSendRT -t SweepTopic -a 3 -s 16
resetOffsetByTime -g sweep_group -t SweepTopic -s 0
resetOffsetByTime -g sweep_offline -t SweepTopic -s 0
skipAccumulatedMessage -g sweep_group -t SweepTopic
cloneGroupOffset -s sweep_group -d sweep_clone -t SweepTopic
consumerProgress -g sweep_clone
updateTopic -c DefaultCluster -t SweepMade
updateTopic -b {broker} -t SweepMadeB -r 2 -w 2 -p 4
updateTopic -c DefaultCluster -t SweepOrder -r 4 -w 4 -o true
updateTopic -b {broker} -t TBW102
updateTopicPerm -b {broker} -t SweepMadeB -p 6
updateTopicPerm -c DefaultCluster -t SweepMadeB -p 6
topicRoute -t SweepMadeB
wipeWritePerm -b broker-a
topicRoute -t SweepTopic
addWritePerm -b broker-a
topicRoute -t SweepTopic
updateOrderConf -t SweepTopic -m put -v broker-a:4
updateOrderConf -t SweepTopic -m get
updateOrderConf -t SweepTopic -m delete
updateSubGroup -c DefaultCluster -g sweep_made
updateSubGroup -b {broker} -g sweep_made2 -s true -m false -d true -q 2 -r 5 -i 0 -w 1 -a true
getConsumerConfig -g sweep_made2
deleteSubGroup -c DefaultCluster -g sweep_made
deleteSubGroup -b {broker} -g sweep_made2 -r true
updateKvConfig -s NS1 -k k1 -v v1
deleteKvConfig -s NS1 -k k1
deleteTopic -c DefaultCluster -t SweepMade
deleteTopic -c DefaultCluster -t NoSuchTopic
updateBrokerConfig -b {broker} -k flushDelayOffsetInterval -v 10000
updateBrokerConfig -b {broker} -k noSuchKey -v 1
updateNamesrvConfig -k orderMessageEnable -v false
cleanExpiredCQ -b {broker}
cleanUnusedTopic -b {broker}
deleteExpiredCommitLog -b {broker}
brokerStatus -b {broker}
getBrokerConfig -b {broker}
getNamesrvConfig
""".splitlines()
"""The broker drops a deleted topic from the NameServer only with its next registration, and a wiped
permission is whole again: permissions are wiped before.
"""
MASKS = [
    (r"\d+\.\d+\.\d+\.\d+@\S+", "CLIENT"),
    (r", \d+\(ms\)", ""),
    (r"(?m)^rt=\d+ms|(?<=true) \d+$", " RATE"),
    (r"\b1[5-9]\d{11}\b", "TIME"),
    (r"/[\w./-]*/", "FOLDER/"),
    (r"(?m)^ *at .*$", ""),
    (r"\.java:\d+", ""),
    (r"\b\d+ ms\b|\bcost=\d+|RT=\d+(\.\d+)?|\d+\.\d+(?=\s|$)", "RATE"),
]
RETRIES = 3
LATE = "RemotingTimeoutException"
"""Text of an answer that took over five seconds: the command is then repeated, unless it sends."""
SENDING = ("sendM", "checkMsgSendRT")
UNORDERED = ("topicList", "brokerConsumeStats")
FAILING = {
    "topicRoute -t NoSuchTopic": "CODE: 17 ",
    "topicStatus -t NoSuchTopic": "CODE: 17 ",
    "consumerConnection -g no_such_group": "CODE: 17 ",
    "consumerProgress -g no_such_group": "CODE: 17 ",
    "producerConnection -g no_such_group -t SweepTopic": "producer group[no_such_group] not exist",
    "queryMsgById -i 7F0000010000000100000000000FFFFF": "connect to 127.0.0.1:1 failed",
    "queryMsgByKey -t SweepTopic -k nope": "CODE: 208 ",
    "queryMsgByUniqueKey -i {unique_id} -t SweepTopic -g sweep_group -d {client}": "not online",
    "queryMsgTraceById -i {unique_id}": "CODE: 17 ",
    "consumerProgress -g sweep_clone": "CODE: 17 ",
    "updateTopic -b {broker} -t TBW102": "is conflict with system topic",
}
"""Commands that RocketMQ ends with a stack trace, and the reason that it must have. Any other
command that fails has nothing to compare.
"""
FIGURES = ("brokerStatus", "getBrokerConfig", "getNamesrvConfig")
"""Commands whose lines are names and values: here, ours has all of Java's names."""


class Swept:
    """One cluster and a JVM of mqadmin's own, with some messages and an online group."""

    def __init__(self, home: Path, maker: Maker) -> None:
        self._home = prepare_home(home / "alone")
        self._stack = ExitStack()
        try:
            self.cluster = Cluster(home / "cluster", maker, maker)
            self._stack.callback(self.cluster.stop)
            self.driver = JavaDriver(home / "driver")
            self._stack.callback(self.driver.kill)
            namesrv = self.cluster.namesrv
            self.cluster.create_topic(self.driver, TOPIC)
            # A reading command creates this topic, but only if it takes over a second.
            self.cluster.create_topic(self.driver, "%RETRY%TOOLS_CONSUMER", queues=1)
            sent = [
                self.driver.produce(namesrv, TOPIC, 3, keys="sweep-", queueId=queue_id)
                for queue_id in range(4)
            ]
            groups = {group: self._consuming(group) for group in (OFFLINE, GROUP)}
            for group, consumer in groups.items():
                consumer.await_messages(12)
                self._await_committed(group)
            groups[OFFLINE].stop()
            self._await_producer()
        except BaseException:
            self._stack.close()
            raise
        self._words = {
            "broker": self.cluster.broker,
            "offset_id": sent[0][0]["offsetMsgId"],
            "unique_id": sent[0][0]["msgId"],
            "client": "nobody",
        }

    def _consuming(self, group: str) -> JavaConsumer:
        # The client fetches known routes at the start, and new ones every 30 s: without this, a
        # retry topic from the first heartbeat would get an owner now or half a minute later.
        self.cluster.create_topic(self.driver, f"%RETRY%{group}", queues=1)
        return self.driver.consume(self.cluster.namesrv, group, TOPIC)

    def _await_committed(self, group: str, timeout: float = 120.0) -> None:
        """Wait until the broker has the offsets of all five queues: a client commits every 10 s."""
        words = ("consumerProgress", "-g", group, "-n", self.cluster.namesrv)

        def is_committed(text: str) -> bool:
            is_whole = f"%RETRY%{group}" in text and text.count(f"\n{TOPIC}") == 4
            return is_whole and "Diff Total: 0" in text

        answer_of(lambda: self.driver.admin(*words), is_committed, timeout)

    def _await_producer(self) -> None:
        """Wait until the broker knows the sender. It sends a heartbeat one second after its start;
        if it knew no broker then, the next one comes 30 s later.
        """
        words = ("producer", "-b", self.cluster.broker, "-n", self.cluster.namesrv)
        assert until(lambda: "interop_sends" in self.driver.admin(*words))

    def run(self, line: str) -> str:
        """The output of a command, run after the last command's messages are in their queues."""
        with Server(self.cluster.broker) as server:
            assert until(server.is_dispatched)
        words = [*line.format(**self._words).split(), "-n", self.cluster.namesrv]
        text = self._printed(words)
        for _ in range(RETRIES):
            if LATE not in text or line.startswith(SENDING):
                break
            text = self._printed(words)
        return text

    def _printed(self, words: list[str]) -> str:
        if words[0] in ALONE:
            return run_alone(self._home, *words)
        return self.driver.admin(*words)

    def sweep(self) -> list[str]:
        """What all commands print, in their order."""
        return [self.run(line) for line in LINES]

    def stop(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def texts(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[list[str]]]:
    """What Java's servers made mqadmin print, and what ours did."""
    homes = [tmp_path_factory.mktemp(f"sweep_{maker}") for maker in MAKERS]

    def swept(home: Path, maker: Maker) -> list[str]:
        running = Swept(home, maker)
        try:
            return running.sweep()
        finally:
            running.stop()

    with ThreadPoolExecutor(2) as pool:
        yield list(pool.map(swept, homes, MAKERS))


def shown(text: str, is_unordered: bool) -> list[str]:
    """The compared part of the lines."""
    text = masked(text)
    for pattern, word in MASKS:
        text = re.sub(pattern, word, text)
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return sorted(lines) if is_unordered else lines


@pytest.mark.parametrize("place", range(len(LINES)), ids=LINES)
def test_our_servers_make_mqadmin_print_the_same(texts: list[list[str]], place: int) -> None:
    for text in (side[place] for side in texts):
        assert has_failed(text) == (LINES[place] in FAILING), text
        assert FAILING.get(LINES[place], "") in text
    is_unordered = LINES[place].startswith(UNORDERED)
    theirs, ours = (shown(side[place], is_unordered) for side in texts)
    assert theirs, "nothing was printed"
    if LINES[place].startswith(FIGURES):
        names = [{re.split(r"[:=]", line)[0].strip() for line in side} for side in (theirs, ours)]
        assert {n for n in names[0] - names[1] if "FOLDER" not in n} == set()
    else:
        assert ours == theirs
