"""Requests that wait for clients, while the broker stops."""

from __future__ import annotations

import pytest

from mqclient.wire.frame import Frame
from mqserver.broker.relay import Relay
from mqserver.replies import Refused, Response
from tests.fakes import FakeRequest


def test_a_request_during_the_stop_is_answered_without_an_error() -> None:
    relay = Relay()
    relay.close()
    with pytest.raises(Refused) as refused:
        relay.later(FakeRequest(325, {}), 1, Frame(220), 1.0, lambda _: Response())
    assert refused.value.response == Response(14, "the broker is stopping")
