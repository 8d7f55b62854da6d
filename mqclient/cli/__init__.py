"""The command `mqclient`: messages in and out of any RocketMQ from a shell.

Exit codes: 0 all is well, 1 failed, 2 wrong usage, 3 unreachable, 4 denied, 70 a defect.
"""

from mqcommon.cli.shortage import telling_shortage

with telling_shortage("mqclient"):
    from mqclient.cli.main import main

__all__ = ["main"]
