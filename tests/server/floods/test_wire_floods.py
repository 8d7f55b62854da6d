"""What floods of bytes cost: long headers, bombs, slow senders, unfinished handshakes.

Small here; `make soak` runs them at full size and prints the figures.
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from mqserver.embedded.standalone import Standalone
from tests.server.floods.rig import Rig, Seen
from tests.server.floods.wire_floods import (
    bomb,
    closed,
    connected,
    drip,
    greet,
    hello_start,
    keys_header,
    send_all,
)
from tests.server.raw import Raw, json_frame
from tests.waiting import until

P99_MS_MAX = 250.0
"""Limit for a healthy client beside a flood, on a busy machine too."""
SETTINGS = {"maxFrameSeconds": "6", "tls.server.mode": "permissive"}
SLOW_SECONDS = 2.0
"""A third of maxFrameSeconds, after which the rate limit applies."""


@dataclass(frozen=True)
class Size:
    """Size of the floods: connections, keys of a header, and unpacked bytes of a bomb."""

    connections: int
    keys: int
    bomb: int
    handshakes: int


SHORT = Size(connections=100, keys=100_000, bomb=64 << 20, handshakes=100)
FULL = Size(connections=5_000, keys=1_000_000, bomb=1 << 30, handshakes=3_000)
SIZES = [
    pytest.param(SHORT, id="short"),
    pytest.param(FULL, id="full", marks=pytest.mark.soak),
]


@pytest.fixture(params=SIZES)
def size(request: pytest.FixtureRequest) -> Size:
    return request.param


@pytest.fixture
def rig(size: Size) -> Iterator[Rig]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        # Few connections have the same few places, so that short floods fill them too.
        few = {} if size is FULL else {"tls.server.maxHandshakes": "40"}
        rig = Rig()
        rig.mq = Standalone(process=True, settings=SETTINGS | few, namesrv_settings=SETTINGS | few)
        with rig:
            yield rig
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def judge(rig: Rig, name: str, seen: Seen, grown_mb_max: float) -> None:
    """Print the figures, and check that the flood cost little and its memory was returned."""
    print(f"{name}: {seen}")
    assert not seen.problems
    assert seen.worst_p99_ms < P99_MS_MAX
    assert seen.grown_mb < grown_mb_max
    assert until(lambda: rig.memory_mb() < seen.before_mb + 40), "memory is not given back"


@pytest.mark.parametrize("server", ["broker", "namesrv"])
def test_headers_of_many_keys_are_refused_unread(rig: Rig, size: Size, server: str) -> None:
    frame = keys_header(size.keys)
    port = rig.port if server == "broker" else rig.namesrv_port
    taken: list[bool] = []

    def one() -> None:
        with Raw(port) as raw:
            taken.append(send_all(raw, frame))

    with rig.watching() as seen:
        senders = [threading.Thread(target=one) for _ in range(40)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
    assert taken == [False] * 40
    judge(rig, f"40 headers of {size.keys} keys, {server}", seen, 40)


def test_registration_bombs_are_refused_in_little_memory(rig: Rig, size: Size) -> None:
    frame = bomb(size.bomb)
    remarks: list[str | None] = []

    def one() -> None:
        with Raw(rig.namesrv_port) as raw:
            remarks.extend(raw.ask(frame).remark for _ in range(5))

    with rig.watching() as seen:
        senders = [threading.Thread(target=one) for _ in range(8)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
    assert len(remarks) == 40
    assert all(remark and "grow over the bound of" in remark for remark in remarks)
    judge(rig, f"40 bombs of {size.bomb >> 20} MiB", seen, 100)


@pytest.mark.parametrize("server", ["broker", "namesrv"])
def test_slow_senders_are_closed(rig: Rig, size: Size, server: str) -> None:
    port = rig.port if server == "broker" else rig.namesrv_port
    frame = json_frame(10, 1, body=bytes(100_000))
    with connected(port, size.connections) as sockets, rig.watching() as seen:
        seconds = drip(sockets, frame, 0.1, 60)
    assert seconds > SLOW_SECONDS * 0.9
    judge(rig, f"{size.connections} slow senders, {server}, {seconds:.1f} s", seen, 60)


@pytest.mark.parametrize("server", ["broker", "namesrv"])
def test_unfinished_handshakes_keep_nobody_out(rig: Rig, size: Size, server: str) -> None:
    port = rig.port if server == "broker" else rig.namesrv_port
    start = hello_start()
    with connected(port, size.handshakes) as sockets, rig.watching() as seen:
        for one in sockets:
            one.sendall(start)
        seconds = max(greet(port) for _ in range(5))
        assert seconds < 5
        over = size.handshakes - (512 if size is FULL else 40)
        assert closed(sockets, 30) >= over
    judge(rig, f"{size.handshakes} handshakes, {server}, new one {seconds:.2f} s", seen, 100)
