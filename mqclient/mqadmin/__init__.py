"""The mqadmin command: RocketMQ's operator tool, with RocketMQ's names, flags and text."""

from mqclient.mqadmin.main import main

__all__ = ["main"]
