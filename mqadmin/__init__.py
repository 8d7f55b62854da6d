"""The mqadmin command: RocketMQ's operator tool, with RocketMQ's names, flags and text."""

from mqcommon.cli.shortage import telling_shortage

with telling_shortage("mqadmin"):
    from mqadmin.main import main

__all__ = ["main"]
