"""Requests that wait for clients, while the broker stops."""

from __future__ import annotations

from mqserver.broker.relay import WAITING_MAX, Relay
from mqserver.replies import Response
from tests.fakes import FakeRequest


def test_a_request_during_the_stop_is_answered_without_an_error() -> None:
    relay = Relay(lambda _connection, _frame: True, lambda _connection, frame, _timeout: frame)
    relay.close()
    for _ in range(WAITING_MAX + 1):
        assert relay.later(FakeRequest(325, {}), Response) == Response(14, "the broker is stopping")
