"""Requests that wait for clients, while the broker stops."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mqcommon.wire.frame import Frame
from mqserver.broker.relay import Relay, answer_with
from mqserver.runtime.processor_api import Refused, Response
from tests.fakes import FakeRequest


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
