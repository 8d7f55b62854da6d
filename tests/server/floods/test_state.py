"""Floods of names: groups, offsets, locks and topics that one anonymous client invents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import ask
from tests.server.floods.rig import HEALTHY_TOPIC, Rig, Seen, answer, pour
from tests.server.native import send_fields
from tests.server.raw import Raw, json_frame


@dataclass(frozen=True)
class Size:
    """How much is sent, and what that may cost.

    p99_ms_max: of the healthy client; None where the machine has other work to do.
    """

    commits: int
    locks: int
    topics: int
    groups: int
    long_names: int
    p99_ms_max: float | None
    grown_mb_max: float = 100.0


SIZES = {
    "short": Size(60_000, 300_000, 2_000, 20_000, 6_000, None),
    "full": Size(762_000, 1_000_000, 33_000, 80_000, 60_000, 250.0),
}
CAPS = {"autoCreateTopicMax": "200", "autoCreateGroupMax": "200", "unknownGroupOffsetMax": "200"}
"""Settings for the short form of the test."""
QUEUES_OF_A_REQUEST = 1_000
GROUP_BYTES = 512 << 20
"""Memory limit of the broker's control group, where the test may make one."""
FULL = pytest.param("full", marks=pytest.mark.soak)


@pytest.fixture(params=["short", FULL])
def size(request: pytest.FixtureRequest) -> Size:
    return SIZES[request.param]


@pytest.fixture
def rig(size: Size) -> Iterator[Rig]:
    with Rig({} if size is SIZES["full"] else CAPS, GROUP_BYTES) as started:
        yield started


def judge(seen: Seen, size: Size) -> None:
    """Print the measured figures and compare them with the limits."""
    print(seen)
    assert not seen.problems
    assert seen.grown_mb <= size.grown_mb_max, seen
    if size.p99_ms_max is not None:
        assert seen.worst_p99_ms <= size.p99_ms_max, seen


def commit(number: int, group: str) -> bytes:
    fields = {"consumerGroup": group, "topic": HEALTHY_TOPIC, "queueId": "0", "commitOffset": "1"}
    return json_frame(15, number, fields)


def test_offset_commits_of_unknown_groups(rig: Rig, size: Size) -> None:
    with rig.watching() as seen, Raw(rig.port) as raw:
        codes = pour(raw, (commit(n, f"flood-{n}") for n in range(size.commits)))
    print(codes)
    judge(seen, size)
    assert codes[26] > size.commits / 2


def test_names_of_three_thousand_characters(rig: Rig, size: Size) -> None:
    with rig.watching() as seen, Raw(rig.port) as raw:
        names = (f"{n:06}".ljust(3_000, "x") for n in range(size.long_names))
        codes = pour(raw, map(commit, range(size.long_names), names))
    print(codes)
    judge(seen, size)
    assert codes == {1: size.long_names}


def test_locks_of_queues(rig: Rig, size: Size) -> None:
    def lock(number: int) -> bytes:
        queues = [
            {"brokerName": "broker-a", "queueId": queue, "topic": f"flood-{number}"}
            for queue in range(QUEUES_OF_A_REQUEST)
        ]
        body = {"clientId": f"c{number}", "consumerGroup": f"g{number}", "mqSet": queues}
        return json_frame(41, number, body=json.dumps(body).encode())

    requests = size.locks // QUEUES_OF_A_REQUEST
    with rig.watching() as seen, Raw(rig.port) as raw:
        codes = pour(raw, map(lock, range(requests)), in_flight=8)
    print(codes)
    judge(seen, size)
    assert codes.total() == requests


def test_topics_made_by_sends(rig: Rig, size: Size) -> None:
    before = rig.store_mb()
    with rig.watching() as seen, Raw(rig.port) as raw:
        sends = (json_frame(310, n, send_fields(b=f"flood-{n}"), b"x") for n in range(size.topics))
        codes = pour(raw, sends)
    print(codes, f"the store grew by {rig.store_mb() - before:.0f} MB")
    judge(seen, size)
    assert codes[0] and codes[17] + codes[2], "some are made, the others are refused"
    assert codes.total() == size.topics


def test_one_heartbeat_of_many_groups(rig: Rig, size: Size) -> None:
    def consumer(number: int) -> dict[str, object]:
        subscription = {"topic": HEALTHY_TOPIC, "subString": "*", "subVersion": 1}
        return {"groupName": f"flood-{number}", "subscriptionDataSet": [subscription]}

    groups = [consumer(number) for number in range(size.groups)]
    body = {"clientID": "flood", "consumerDataSet": groups}
    beat = json_frame(34, 1, body=json.dumps(body).encode())
    with rig.watching() as seen, Raw(rig.port) as raw:
        raw.send(beat)
        reply = answer(raw)
    judge(seen, size)
    assert reply.code == 1
    assert "maxHeartbeatBytes" in (reply.remark or "")
    assert seen.seconds < 10


def test_heartbeats_that_bring_groups_one_after_the_other(rig: Rig, size: Size) -> None:
    def beat(number: int) -> bytes:
        names = [f"flood-{number}-{one}" for one in range(100)]
        groups = [{"groupName": name, "subscriptionDataSet": []} for name in names]
        producers = [{"groupName": name} for name in names]
        body = {
            "clientID": f"c{number}",
            "consumerDataSet": groups,
            "producerDataSet": producers,
        }
        return json_frame(34, number, body=json.dumps(body).encode())

    with rig.watching() as seen:
        for number in range(size.groups // 100):
            with Raw(rig.port) as raw:
                raw.send(beat(number))
                answer(raw)
    judge(seen, size)
    groups = json.loads(ask(rig.mq.broker_address, Frame(201)).body)["subscriptionGroupTable"]
    assert len(groups) < 12_000
