"""Brokers of a replicated set: their topics, what they say of their logs, and the bytes of both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol

from mqcommon.wire.bodies.common import KVTable
from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe, ask
from tests.waiting import answer_of

JOINED = re.compile(r"\b(waiting|verifying|transfer)\b")


class Broker(Protocol):
    """A broker with its store."""

    address: str
    store: Path


def create_topic(address: str, topic: str, queues: int) -> None:
    """Create a topic at a master."""
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues),
        "writeQueueNums": str(queues), "perm": "6", "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0", "order": "false",
    }  # fmt: skip
    created = ask(address, Frame(Code.UPDATE_AND_CREATE_TOPIC, fields))
    assert created.code == 0, created.remark


def figures_of(address: str) -> dict[str, str]:
    """Code 28: the figures of a broker; a Java broker may refuse for a while after its start."""
    asked = Frame(Code.GET_BROKER_RUNTIME_INFO)
    reply = answer_of(lambda: ask(address, asked), lambda reply: reply.code == 0)
    return KVTable.from_json(reply.body).table


def end_of(address: str) -> int:
    """The end of a broker's log."""
    return int(figures_of(address)["commitLogMaxOffset"])


def is_joined(address: str) -> bool:
    """Whether a broker of ours says that its slave has joined it, or that it follows its master."""
    figures = figures_of(address).items()
    return any(key.startswith("ha") and JOINED.search(value) for key, value in figures)


def queue_ends(address: str, topic: str, queues: int) -> dict[int, int]:
    """The offset after the last message, by queue."""
    with Probe(address) as probe:
        return {
            queue_id: int(probe.call(_max_offset(topic, queue_id)).fields["offset"])
            for queue_id in range(queues)
        }


def _max_offset(topic: str, queue_id: int) -> Frame:
    return Frame(Code.GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)})


def assert_equal_logs(master: Broker, slave: Broker) -> None:
    """The slave gets the master's whole log, byte for byte; both begin with the same file."""
    end = end_of(master.address)
    answer_of(lambda: end_of(slave.address), end.__eq__)
    start = min(int(file.name) for file in (slave.store / "commitlog").iterdir())
    assert log_bytes(slave.store, start, end) == log_bytes(master.store, start, end)


def log_bytes(store: Path, start: int, end: int) -> bytes:
    """The bytes of a store's log from `start` to `end`; its files are without a hole."""
    files = sorted(file for file in (store / "commitlog").iterdir() if file.name.isdigit())
    first = int(files[0].name)
    assert first <= start, f"the log of {store} begins at {first}"
    return b"".join(file.read_bytes() for file in files)[start - first : end - first]
