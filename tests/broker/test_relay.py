"""Requests that wait for clients: their deadlines, and the stop of the broker."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from mqcommon.wire.frame import Frame
from mqserver.broker.relay import REST_S_MAX, Outcome, Relay, answer_with
from mqserver.runtime.data_plane import PlaneStopped
from mqserver.runtime.processor_api import Refused, Response
from tests.fakes import FakeRequest

DEADLINE = 60.0


class FakeClients:
    """Clients that answer when a test says so. `waits` has the seconds of each wait of the relay.

    A wait ends with the next entry of `ends`: a reply, None for a wake or the end of its time, or
    an error.
    """

    def __init__(self) -> None:
        self.waits: queue.Queue[float] = queue.Queue()
        self.ends: queue.Queue[tuple[int, int, bytes | None] | Exception | None] = queue.Queue()
        self.forgotten: list[tuple[int, int]] = []
        self.asked = 0

    def send(self, connection: int, frame: bytes) -> bool:
        return True

    def ask(self, connection: int, frame: bytes) -> int:
        self.asked += 1
        return self.asked

    def next_client_reply(self, timeout: float) -> tuple[int, int, bytes | None] | None:
        self.waits.put(timeout)
        end = self.ends.get(timeout=DEADLINE)
        if isinstance(end, Exception):
            raise end
        return end

    def wake_client_replies(self) -> None:
        self.ends.put(None)

    def forget_client_reply(self, connection: int, opaque: int) -> None:
        self.forgotten.append((connection, opaque))

    def wait_s(self) -> float:
        """Seconds of the relay's next wait."""
        return self.waits.get(timeout=DEADLINE)


class Asking:
    """A started relay with a clock that stands still, and the outcomes of its questions."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.clients = FakeClients()
        self.relay = Relay(lambda: self.now_s)
        self.outcomes: queue.Queue[Outcome] = queue.Queue()
        self.relay.start(self.clients)

    def ask(self, timeout: float) -> None:
        self.relay.ask(1, Frame(220), timeout, self.outcomes.put)


@pytest.fixture
def asking() -> Iterator[Asking]:
    asking = Asking()
    yield asking
    asking.relay.close()


def test_without_a_question_the_relay_rests(asking: Asking) -> None:
    assert asking.clients.wait_s() == REST_S_MAX
    asking.relay.close()
    assert asking.clients.waits.empty(), "woken only by the stop"


def test_the_relay_rests_until_the_next_deadline(asking: Asking) -> None:
    assert asking.clients.wait_s() == REST_S_MAX
    asking.ask(5.0)
    assert asking.clients.wait_s() == 5.0, "woken by the question"
    asking.ask(9.0)
    asking.ask(2.0)
    assert asking.clients.wait_s() == 2.0, "woken by the earlier deadline only"
    asking.now_s += 2.0
    asking.clients.ends.put(None)
    with pytest.raises(TimeoutError, match=r"within 2\.0 s"):
        raise asking.outcomes.get(timeout=DEADLINE)  # type: ignore[misc]
    assert asking.clients.wait_s() == 3.0
    assert asking.clients.forgotten == [(1, 3)]


def test_an_answer_ends_a_question(asking: Asking) -> None:
    assert asking.clients.wait_s() == REST_S_MAX
    asking.ask(5.0)
    assert asking.clients.wait_s() == 5.0
    asking.clients.ends.put((1, 1, None))
    assert isinstance(asking.outcomes.get(timeout=DEADLINE), ConnectionError)
    assert asking.clients.wait_s() == 5.0
    asking.now_s += 5.0
    asking.clients.ends.put(None)
    assert asking.clients.wait_s() == REST_S_MAX
    assert asking.outcomes.empty()


def test_the_relay_ends_with_the_listener(asking: Asking) -> None:
    assert asking.clients.wait_s() == REST_S_MAX
    asking.clients.ends.put(PlaneStopped())
    asking.relay.close()
    assert asking.clients.waits.empty()


def test_a_request_during_the_stop_is_answered_without_an_error() -> None:
    relay = Relay()
    relay.close()
    with pytest.raises(Refused) as refused:
        relay.later(FakeRequest(325, {}), 1, Frame(220), 1.0, lambda _: Response())
    assert refused.value.response == Response(14, "the broker is stopping")


def test_an_answer_that_cannot_be_made_is_logged_and_refused(caplog):
    replies = []
    request = SimpleNamespace(code=307, respond=lambda *reply: replies.append(reply))

    def fail(_outcome):
        raise LookupError("no such member")

    answer_with(request, fail, None)
    assert replies[0][:2] == (1, "LookupError: no such member")
    (line,) = [record for record in caplog.records if record.exc_info]
    assert line.getMessage() == "request 307 failed after the client had answered"
