"""Middleware: a generator around each send, or around each call of a handler."""

from mqclient.engine.middleware import Middleware, SendContext

__all__ = ["Middleware", "SendContext"]
