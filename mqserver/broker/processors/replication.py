"""Codes 30000 and 30001: state that slaves of mqstack copy beside RocketMQ's codes 21, 43, 45 and
201."""

from __future__ import annotations

from mqcommon import fastjson
from mqcommon.wire.bodies.replication import SlaveState
from mqcommon.wire.codes import ResponseCode
from mqserver.broker.context import BrokerContext
from mqserver.runtime.processor_api import Reply, Request, Response


def slave_state(broker: BrokerContext, request: Request) -> Reply:
    """GET_SLAVE_STATE (30000): consumer filters, and the topics whose messages were deleted."""
    state = SlaveState(broker.filters.render().decode(), broker.store.deletions())
    return Response(fields={}, body=state.to_json())


def access_files(broker: BrokerContext, request: Request) -> Reply:
    """GET_ACCESS_FILES (30001): the access files with their secrets, for a slave's copy."""
    if broker.acl is None:
        return Response(ResponseCode.SYSTEM_ERROR, "access control is off, see aclEnable")
    return Response(fields={}, body=fastjson.dumps(broker.acl.content()).encode())
