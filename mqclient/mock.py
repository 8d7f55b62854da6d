"""Tests without a server: a broker that stores what is sent, messages for handlers, and scripts."""

from mqclient.engine.mock import MockTransport, Script
from mqclient.engine.mock_broker import MockBroker, received
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame

__all__ = ["Frame", "MockBroker", "MockTransport", "RequestCode", "Script", "received"]
