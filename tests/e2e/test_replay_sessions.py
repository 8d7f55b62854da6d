"""Sessions of RocketMQ's own clients, as recorded, with our broker in place of RocketMQ's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mqserver.embedded.standalone import Standalone
from tests.e2e.replaying import Replay

SESSIONS = (
    "producer", "transaction", "pull-consumer", "push-concurrent", "push-orderly", "rebalance",
    "producer-rocketmq", "transaction-rocketmq", "push-concurrent-rocketmq",
    "push-orderly-rocketmq", "rebalance-rocketmq", "request-reply-rocketmq", "push-broadcast",
    "lite-pull", "trace", "push-sql", "reset-offset-refused", "request-reply", "reset-offset",
)  # fmt: skip
"""In the recorded order, with one broker: each session finds the state that the others left."""
STRAYS = ("request-reply: 38 {'ReqT': '0', 'consumerGroup': 'wire_pull'}",)
"""Requests of a client whose own session had begun before."""


@pytest.fixture(scope="module")
def replay(plane: str) -> Iterator[Replay]:
    settings = {
        "dataPlane": plane,
        "enablePropertyFilter": "true",
        "transactionCheckInterval": "700",
        "transactionTimeOut": "200",
    }
    with Standalone(settings=settings) as mq:
        yield Replay(mq.broker_address, mq.wait_dispatched)


@pytest.mark.parametrize("session", SESSIONS)
def test_the_broker_says_what_rocketmqs_said(replay: Replay, session: str) -> None:
    replay.differences.clear()
    before = replay.compared
    replay.play(session)
    found = [text for text in replay.differences if not text.startswith(STRAYS)]
    assert not found, "\n".join(found)
    assert replay.compared > before + 5
