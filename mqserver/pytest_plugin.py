"""Fixtures for tests that need a broker. Nothing is imported or started until one is used."""

from mqserver.embedded.pytest_plugin import mq_broker, mq_namesrv, mq_replicated

__all__ = ["mq_broker", "mq_namesrv", "mq_replicated"]
