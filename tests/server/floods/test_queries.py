"""Floods of queries with large answers: their cost for the broker, a client and an operator.

Small here; `make soak` runs them for longer and holds the p99 of a healthy client against the p99
that it has alone. That wants an optimised build on a machine without other work.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe, ask
from tests.server.floods.rig import Rig, Seen, answers
from tests.server.native import send_fields
from tests.server.raw import Raw, json_frame

MIB = 1 << 20
LIMIT_BYTES = 512 * MIB
TOPIC, GROUP, KEY = "Asked", "asked", "k"
SETTINGS = {
    "autoCreateTopicMax": "100000",
    "autoCreateTopicPerSecond": "100000",
    "defaultTopicQueueNums": "64",
}
IN_FLIGHT = 16
OPERATOR_SECONDS_MAX = 2.5
"""Longest wait of an operator, who gets turns between the flooders; without turns it is 4 s."""
IDLE_NICE = 19
"""Of a flooder's thread, which would run on another machine."""


@dataclass(frozen=True)
class Size:
    """The queries of a flood, and the limits of their cost.

    p99_floor_ms: a p99 below it is good, whatever the p99 alone; None: not judged.
    """

    seconds: float
    slice_seconds: float
    flooders: int
    topics: int
    members: int
    messages: int
    alone_slices: int
    p99_floor_ms: float | None


SIZES = [
    pytest.param(Size(2, 0.5, 3, 200, 20, 8, 1, None), id="short"),
    pytest.param(Size(30, 3, 6, 5_000, 400, 64, 3, 5.0), id="full", marks=pytest.mark.soak),
]


@pytest.fixture(params=SIZES)
def size(request: pytest.FixtureRequest) -> Size:
    return request.param


@pytest.fixture
def rig(size: Size) -> Iterator[Rig]:
    rig = Rig(SETTINGS, LIMIT_BYTES, size.slice_seconds, True, size.alone_slices)
    with rig, ExitStack() as members:
        fill(rig, size, members)
        yield rig


def fill(rig: Rig, size: Size, members: ExitStack) -> None:
    """Make the topics, messages and members that the questions are about."""
    with Raw(rig.port) as raw:
        left = list(range(size.topics))
        while left:  # a broker on a busy machine answers some with 2
            frames = (json_frame(310, n, send_fields(b=f"Other{n}"), b"x") for n in left)
            replies = list(answers(raw, frames, 64))
            assert {reply.code for reply in replies} <= {0, 2}
            left = [reply.opaque for reply in replies if reply.code == 2]
        body = b"b" * (3 * MIB)
        for number in range(size.messages):
            fields = send_fields(b=TOPIC, d="64", i=f"KEYS\x01{KEY}")
            assert raw.ask(json_frame(310, number, fields, body)).code == 0
    for number in range(size.members):
        member = members.enter_context(Probe(rig.mq.broker_address))
        subscribed = [{"topic": TOPIC, "subString": "*"}]
        consumer = {"groupName": GROUP, "subscriptionDataSet": subscribed}
        said = {"clientID": f"member-{number}", "consumerDataSet": [consumer]}
        assert member.call(Frame(34, {}, json.dumps(said).encode())).code == 0
    for queue_id in range(64):
        commit = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": str(queue_id)}
        assert ask(rig.mq.broker_address, Frame(15, {**commit, "commitOffset": "0"})).code == 0


def by_key(opaque: int) -> bytes:
    """12: up to 64 messages of 3 MiB."""
    times = {"beginTimestamp": "0", "endTimestamp": str(2**62)}
    return json_frame(12, opaque, {"topic": TOPIC, "key": KEY, "maxNum": "64", **times})


def about_group(opaque: int) -> bytes:
    """203 and 208: members and progress of a group."""
    return json_frame((203, 208)[opaque % 2], opaque, {"consumerGroup": GROUP, "topic": TOPIC})


def about_topics(opaque: int) -> bytes:
    """21, 43, 201, 202 and 321: tables of the broker, of a topic and of a queue."""
    more = {"topic": TOPIC, "queueId": "0", "index": "0", "count": "4096"}
    return json_frame((21, 43, 201, 202, 321)[opaque % 5], opaque, more)


def routes(opaque: int) -> bytes:
    """105 and 206: of the NameServer."""
    return json_frame((105, 206)[opaque % 2], opaque, {"topic": TOPIC})


Question = Callable[[int], bytes]
QUESTIONS: dict[str, tuple[Question, ...]] = {
    "by key": (by_key,),
    "group": (about_group,),
    "topics": (about_topics,),
    "routes": (routes,),
    "all": (by_key, about_group, about_topics),
}


def flood(port: int, questions: tuple[Question, ...], flooder: int, over: threading.Event) -> int:
    """Ask until it is over; the number of answers."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), IDLE_NICE)
    question = questions[flooder % len(questions)]
    asked = itertools.takewhile(lambda _: not over.is_set(), itertools.count())
    with Raw(port) as raw:
        return sum(1 for _ in answers(raw, map(question, asked), IN_FLIGHT))


def operate(rig: Rig, over: threading.Event, waits: list[float]) -> None:
    """Ask one small question of the same family at a time, as an operator does."""
    view = Frame(202, {"topic": "Other0"})
    with Probe(rig.mq.broker_address, timeout=30) as probe:
        while not over.wait(0.1):
            began = time.monotonic()
            assert probe.call(view).code == 0
            waits.append(time.monotonic() - began)


@pytest.mark.parametrize("kind", QUESTIONS)
def test_questions_with_large_answers(rig: Rig, size: Size, kind: str) -> None:
    over, waits, answered = threading.Event(), [0.0], []
    port = rig.namesrv_port if kind == "routes" else rig.port

    def ask_on(flooder: int) -> None:
        answered.append(flood(port, QUESTIONS[kind], flooder, over))

    threads = [threading.Thread(target=ask_on, args=(n,)) for n in range(size.flooders)]
    threads.append(threading.Thread(target=operate, args=(rig, over, waits)))
    with rig.watching() as seen:
        for thread in threads:
            thread.start()
        time.sleep(size.seconds)
        over.set()
        for thread in threads:
            thread.join()
    judge(rig, size, seen, f"{kind}: {sum(answered)} answers, operator {max(waits):.2f} s")
    assert len(answered) == size.flooders
    assert max(waits) < OPERATOR_SECONDS_MAX


def judge(rig: Rig, size: Size, seen: Seen, told: str) -> None:
    """Print the figures, and hold them against what may be."""
    group = f"{rig.group.peak_mb():.0f} MB in a group of 512" if rig.group else "no control group"
    print(f"{told}; {seen}; {group}")
    assert not seen.problems
    assert seen.peak_mb * MIB < LIMIT_BYTES
    if size.p99_floor_ms is not None:
        assert seen.usual_p99_ms <= max(2 * seen.alone_p99_ms, size.p99_floor_ms), seen
