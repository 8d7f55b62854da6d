"""The requests that a slave refuses, because only its master may change what it would change."""

from __future__ import annotations

from collections.abc import Mapping

from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.codes import ResponseCode
from mqserver.broker.sending import not_available
from mqserver.runtime.processor_api import Processor, Response

_ONLY_ON_A_MASTER = (
    "Can't modify topic or subscription group from slave broker, please execute it from master "
    "broker."
)
"""`AdminBrokerProcessor.validateSlave`."""

REFUSED: Mapping[int, Response] = {
    **dict.fromkeys(
        (Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE),
        Response(ResponseCode.SERVICE_NOT_AVAILABLE, not_available("this broker is a slave")),
    ),
    Code.CONSUMER_SEND_MSG_BACK: Response(ResponseCode.SYSTEM_ERROR, "SERVICE_NOT_AVAILABLE"),
    Code.END_TRANSACTION: Response(ResponseCode.SLAVE_NOT_AVAILABLE),
    **dict.fromkeys(
        (
            Code.UPDATE_AND_CREATE_TOPIC,
            Code.DELETE_TOPIC_IN_BROKER,
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            Code.DELETE_SUBSCRIPTIONGROUP,
        ),
        Response(ResponseCode.SYSTEM_ERROR, _ONLY_ON_A_MASTER),
    ),
}
"""By code: the answer. RocketMQ creates the topic of a send before its store refuses the message;
this broker refuses at once."""


def of_slave(processors: Mapping[int, Processor]) -> dict[int, Processor]:
    """The processors of a slave."""
    return {**processors, **{int(code): _answering(REFUSED[code]) for code in REFUSED}}


def _answering(response: Response) -> Processor:
    return lambda _request: response
