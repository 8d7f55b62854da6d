"""A transport without sockets, whose replies come from a script."""

from mqclient.engine.mock import MockTransport, Script

__all__ = ["MockTransport", "Script"]
