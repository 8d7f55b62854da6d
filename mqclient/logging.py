"""A handler of Python's logging that sends records to a topic."""

from mqclient.integrations.logging import JsonFormatter, RocketMQHandler

__all__ = ["JsonFormatter", "RocketMQHandler"]
