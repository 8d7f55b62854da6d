"""What a slave refuses, and with which code."""

from __future__ import annotations

import pytest

from mqcommon.wire.codes import RequestCode as Code
from mqserver.broker.replication.refused import of_slave
from mqserver.broker.table import PROCESSORS
from mqserver.runtime.processor_api import Response
from tests.fakes import FakeRequest

SERVED = Response(0, "served")


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (Code.SEND_MESSAGE, 14),
        (Code.SEND_MESSAGE_V2, 14),
        (Code.SEND_BATCH_MESSAGE, 14),
        (Code.CONSUMER_SEND_MSG_BACK, 1),
        (Code.END_TRANSACTION, 11),
        (Code.UPDATE_AND_CREATE_TOPIC, 1),
        (Code.DELETE_TOPIC_IN_BROKER, 1),
        (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 1),
        (Code.DELETE_SUBSCRIPTIONGROUP, 1),
        (Code.PULL_MESSAGE, 0),
        (Code.UPDATE_CONSUMER_OFFSET, 0),
        (Code.LOCK_BATCH_MQ, 0),
    ],
)
def test_a_slave_changes_nothing_that_is_its_masters(code: Code, answer: int) -> None:
    processors = of_slave({int(known): lambda _request: SERVED for known in PROCESSORS})
    response = processors[int(code)](FakeRequest(int(code)))
    assert isinstance(response, Response)
    assert response.code == answer
