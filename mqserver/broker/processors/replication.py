"""Code 30000: the state that slaves of mqstack copy beside RocketMQ's codes 21, 43, 45 and 201."""

from __future__ import annotations

from mqcommon.wire.bodies.replication import SlaveState
from mqserver.broker.context import BrokerContext
from mqserver.runtime.processor_api import Reply, Request, Response


def slave_state(broker: BrokerContext, request: Request) -> Reply:
    """GET_SLAVE_STATE (30000): consumer filters, and the topics whose messages were deleted."""
    state = SlaveState(broker.filters.render().decode(), broker.store.deletions())
    return Response(fields={}, body=state.to_json())
