"""What floods of questions with large answers cost: messages by key and by offset, entries of
queues, whole tables.

Small here; `make soak` runs them at full size and prints the figures, the memory for a cgroup of
512 MiB.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count

import pytest

from tests.server.floods.rig import Rig, Seen, answer, pour
from tests.server.raw import Raw, json_frame

TOPIC = "Large"
BODY = b"b" * (3 << 20)
MESSAGES = 16
IN_FLIGHT = 16
MEMORY_MB_MAX = 300.0
"""Of a broker and a NameServer in a cgroup of 512 MiB, whose files take the rest."""


@dataclass(frozen=True)
class Size:
    """Of the floods. clients: connections. requests: of each. topics: for whole tables. p99_times:
    the p99 of a healthy client, as a multiple of that without a flood; p99_ms: what is no harm."""

    clients: int
    requests: int
    topics: int
    p99_times: float
    p99_ms: float


SHORT = Size(clients=4, requests=20, topics=200, p99_times=2.0, p99_ms=250.0)
FULL = Size(clients=32, requests=400, topics=5_000, p99_times=2.0, p99_ms=5.0)
SIZES = [
    pytest.param(SHORT, id="short"),
    pytest.param(FULL, id="full", marks=pytest.mark.soak),
]


@pytest.fixture(params=SIZES, scope="module")
def size(request: pytest.FixtureRequest) -> Size:
    return request.param


@pytest.fixture(scope="module")
def rig(size: Size) -> Iterator[Rig]:
    with Rig({"autoCreateTopicPerSecond": "1000000"}) as rig:
        raw = Raw(rig.port)
        for number in range(MESSAGES):
            raw.send(sending(TOPIC, number, BODY))
            assert answer(raw).code == 0
        pour(raw, (sending(f"Topic{n}", n, b"x") for n in range(size.topics)))
        raw.close()
        yield rig


def sending(topic: str, number: int, body: bytes) -> bytes:
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1"}
    return json_frame(310, number, {**letters, "h": "0", "i": "KEYS\x01k", "m": "false"}, body)


TIMES = {"beginTimestamp": "0", "endTimestamp": str(2**62)}
QUESTIONS = {
    "by key": (12, {"topic": TOPIC, "key": "k", "maxNum": "64", **TIMES}),
    "by offset": (33, {"offset": "0"}),
    "entries": (321, {"topic": TOPIC, "queueId": "0", "index": "0", "count": "4096"}),
    "topics": (21, {}),
    "consumers": (317, {"isOrder": "false"}),
    "cleaning": (306, {}),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_with_large_answers(rig: Rig, size: Size, name: str) -> None:
    code, fields = QUESTIONS[name]

    def ask_much() -> None:
        raw = Raw(rig.port)
        frames = (json_frame(code, number, fields) for number in range(size.requests))
        codes = pour(raw, frames, IN_FLIGHT)
        raw.close()
        assert codes.keys() <= {0, 2}, codes

    with rig.watching() as seen:
        askers = [threading.Thread(target=ask_much) for _ in range(size.clients)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
    judge(seen, size)


@pytest.mark.parametrize("name", ["by key", "by offset"])
def test_large_answers_that_nobody_takes(rig: Rig, size: Size, name: str) -> None:
    code, fields = QUESTIONS[name]
    numbers = count()
    with rig.watching() as seen, ExitStack() as opened:
        for _ in range(8 * size.clients):
            raw = Raw(rig.port)
            opened.callback(raw.close)
            for _ in range(IN_FLIGHT):
                raw.send(json_frame(code, next(numbers), fields))
        last = Raw(rig.port)
        opened.callback(last.close)
        last.send(json_frame(28, 1))
        assert answer(last).code == 0, "small answers are given"
    judge(seen, size)


def judge(seen: Seen, size: Size) -> None:
    """Print the figures, and hold them to the size's limits."""
    print(seen)
    assert not seen.problems
    assert seen.worst_p99_ms <= max(size.p99_times * seen.alone_p99_ms, size.p99_ms), seen
    assert seen.peak_mb <= MEMORY_MB_MAX, seen
