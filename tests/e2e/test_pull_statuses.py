"""Every status of a read as the pull's reply shows it: code, remark and offsets.

Nothing here is made by a client: the store is written first and then loses files, as disks and
people do it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mqcommon.wire.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import Settings, Store
from tests.inside import context_of

GROUP = "TOOLS_CONSUMER"
"""A group that always is, so that the Rust plane answers."""
PULL = {"consumerGroup": GROUP, "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0"}
PULL |= {"suspendTimeoutMillis": "0", "subVersion": "0"}
BIG = bytes(600_000)
"""Two of these do not fit into a file of the log."""
UNITS_PER_FILE = 10
LONG_MAX = (1 << 63) - 1
UNLIKELY = "%RETRY%" + "g" * 255
"""The retry topic of a group with the longest name: legal, but too long for a directory, so that it
can have no queue.
"""


class Case(NamedTuple):
    """One row of the table."""

    status: str
    topic: str
    offset: int
    code: int
    next: int
    min: int
    max: int
    queue_id: int = 0
    subscription: str = "*"
    kind: str = "TAG"


CASES = [
    Case("FOUND", "Full", 1, 0, 5, 0, 5),
    Case("FOUND", "Full", 0, 0, 5, 0, 5, subscription="Even"),
    Case("NO_MATCHED_MESSAGE", "Full", 1, 20, 5, 0, 5, subscription="Other"),
    # RocketMQ's cleaner deletes a file of the log first and corrects the queues' first offsets
    # later: a pull in between gets this status. So does a pull of a file that was deleted from the
    # middle, which a start of RocketMQ does not detect. Our broker then puts fillers into the
    # queue.
    Case("MESSAGE_WAS_REMOVING", "Gone", 1, 20, 3, 0, 3),
    Case("MESSAGE_WAS_REMOVING", "Gone", 2, 20, 3, 0, 3),
    Case("MESSAGE_WAS_REMOVING", "Gone", 1, 20, 3, 0, 3, subscription="n IS NULL", kind="SQL92"),
    Case("NO_MATCHED_MESSAGE", "Gone", 1, 20, 3, 0, 3, subscription="Other"),
    Case("FOUND", "Gone", 0, 0, 3, 0, 3),
    # RocketMQ finds no mapped file for an offset within the bounds: one that is missing in the
    # middle when the broker starts (our broker rebuilds such a queue), or is removed later.
    Case("OFFSET_FOUND_NULL", "Hole", 10, 19, 20, 0, 25),
    Case("OFFSET_FOUND_NULL", "Hole", 13, 19, 20, 0, 25),
    Case("OFFSET_OVERFLOW_BADLY", "Full", 6, 21, 5, 0, 5),
    Case("OFFSET_OVERFLOW_BADLY", "Full", LONG_MAX, 21, 5, 0, 5),
    Case("OFFSET_OVERFLOW_ONE", "Full", 5, 19, 5, 0, 5),
    Case("OFFSET_TOO_SMALL", "Trimmed", 0, 21, 3, 3, 5),
    Case("OFFSET_TOO_SMALL", "Trimmed", 2, 21, 3, 3, 5),
    Case("OFFSET_TOO_SMALL", "Full", -1, 21, 0, 0, 5),
    Case("FOUND", "Trimmed", 3, 0, 5, 3, 5),
    Case("NO_MATCHED_LOGIC_QUEUE", UNLIKELY, 0, 19, 0, 0, 0),
    Case("NO_MATCHED_LOGIC_QUEUE", UNLIKELY, 7, 21, 0, 0, 0),
    Case("NO_MESSAGE_IN_QUEUE", "Full", 0, 19, 0, 0, 0, queue_id=1),
    Case("NO_MESSAGE_IN_QUEUE", "Full", 7, 21, 0, 0, 0, queue_id=1),
    Case("NO_MESSAGE_IN_QUEUE", "Full", -1, 21, 0, 0, 0, queue_id=1),
]


def write(path: Path) -> None:
    """Messages in four files of the log; the first and the third are deleted."""
    settings = Settings(
        commit_log_file_bytes=1 << 20,
        consume_queue_file_bytes=20 * UNITS_PER_FILE,
        index_slots=100,
        index_entries=400,
        allocate_step_bytes=1 << 20,
        min_free_bytes=1,
    )
    topics = {
        name: TopicConfig(name, read_queue_nums=2, write_queue_nums=2, perm=6)
        for name in ("Trimmed", "Gone", "Full", "Hole", UNLIKELY)
    }
    with Store(path, settings, create=True) as store:
        for _ in range(3):
            store.put("Trimmed", b"old")
        for _ in range(2):
            store.put("Filler", BIG)
        store.put("Gone", b"the first is there")
        store.put("Gone", BIG)
        store.put("Gone", b"in the same file")
        store.put("Filler", BIG)
        for _ in range(2):
            store.put("Trimmed", b"new")
        for tag in ("Even", "Odd", "Even", "Odd", "Even"):
            store.put("Full", b"x", properties=f"TAGS\x01{tag}".encode())
        for _ in range(25):
            store.put("Hole", b"x")
        store.flush()
        store.save_state("topics.json", TopicConfigSerializeWrapper(topics).to_json())
    log = sorted((path / "commitlog").iterdir())
    assert len(log) == 4
    for lost in (log[0], log[2]):
        lost.unlink()


@pytest.fixture(scope="module")
def damaged(plane: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    path = tmp_path_factory.mktemp("store") / "store"
    write(path)
    with Standalone(path, settings={"dataPlane": plane, "enablePropertyFilter": "true"}) as mq:
        # The start has read the file and may hold it open, so it is emptied as well.
        lost = sorted((path / "consumequeue" / "Hole" / "0").iterdir())[1]
        os.truncate(lost, 0)
        lost.unlink()
        yield mq


def pull(mq: Standalone, case: Case) -> Frame:
    fields = {**PULL, "topic": case.topic, "queueId": str(case.queue_id)}
    fields |= {"queueOffset": str(case.offset), "subscription": case.subscription}
    fields |= {"expressionType": case.kind}
    with Probe(mq.broker_address, timeout=60) as probe:
        return probe.call(Frame(11, fields))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.status}-{case.offset}")
def test_a_pull_is_told(damaged: Standalone, case: Case) -> None:
    reply = pull(damaged, case)
    assert (reply.code, reply.remark) == (case.code, case.status)
    assert reply.fields == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(case.next),
        "minOffset": str(case.min),
        "maxOffset": str(case.max),
    }
    assert bool(reply.body) == (case.code == 0)


def test_after_a_lost_queue_file_the_rest_is_found(damaged: Standalone) -> None:
    for asked, end in ((0, 10), (20, 25)):
        reply = pull(damaged, Case("FOUND", "Hole", asked, 0, end, 0, 25))
        assert (reply.code, reply.fields["nextBeginOffset"]) == (0, str(end))


def test_each_plane_answers_itself(damaged: Standalone, plane: str) -> None:
    def in_python() -> int:
        return context_of(damaged).counters().get("python.11", 0)

    before = in_python()
    for case in CASES:
        pull(damaged, case)
    assert in_python() - before == (len(CASES) if plane == "python" else 0)


def test_a_group_that_was_moved_is_told_once(damaged: Standalone) -> None:
    """OFFSET_RESET exists since RocketMQ 5.0; no request of 4.9 moves a group in this way."""
    store = context_of(damaged).store
    assert isinstance(store, Store)
    store.reset_offset(GROUP, "Full", 0, 2)
    case = Case("OFFSET_RESET", "Full", 4, 21, 2, 0, 5)
    test_a_pull_is_told(damaged, case)
    test_a_pull_is_told(damaged, case._replace(status="FOUND", code=0, next=5))
