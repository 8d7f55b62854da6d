"""The command `mqpipeline`: Spark jobs that copy topics to a lake and back.

Exit codes: 0 success, 1 failed, 2 wrong usage, 3 unreachable, 4 denied, 5 damage was skipped.
"""

from mqcommon.cli.shortage import telling_shortage

with telling_shortage("mqpipeline"):
    from mqpipeline.cli.main import main

__all__ = ["main"]
