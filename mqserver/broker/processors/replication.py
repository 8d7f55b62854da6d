"""Codes 30000 and 30001: state that slaves of mqstack copy beside RocketMQ's codes 21, 43, 45 and
201."""

from __future__ import annotations

from mqcommon import fastjson
from mqcommon.wire.bodies.replication import SlaveState
from mqcommon.wire.codes import ResponseCode
from mqserver.broker.context import BrokerContext
from mqserver.broker.reply_size import WHOLE_BYTES_MAX, check_whole
from mqserver.runtime.processor_api import Reply, Request, Response

SLAVE_STATE_BYTES_MAX = WHOLE_BYTES_MAX - (64 << 10)
"""Bytes of the largest body of GET_SLAVE_STATE; the header has the rest of the frame."""


def slave_state(broker: BrokerContext, request: Request) -> Reply:
    """GET_SLAVE_STATE (30000): consumer filters, and the topics whose messages were deleted.

    Filters that fit no reply are left out, as RocketMQ's slaves have none either.
    """
    deletions = broker.store.deletions()
    body = SlaveState(broker.filters.render().decode(), deletions).to_json()
    if len(body) > SLAVE_STATE_BYTES_MAX:
        body = SlaveState("", deletions).to_json()
    check_whole(len(body), "the deleted topics")
    return Response(fields={}, body=body)


def access_files(broker: BrokerContext, request: Request) -> Reply:
    """GET_ACCESS_FILES (30001): the access files with their secrets, for a slave's copy."""
    if broker.acl is None:
        return Response(ResponseCode.SYSTEM_ERROR, "access control is off, see aclEnable")
    return Response(fields={}, body=fastjson.dumps(broker.acl.content()).encode())
