"""The command `mqpipeline`: jobs that move topics into a lake and back, on Spark.

Exit codes: 0 all is well, 1 failed, 2 wrong usage, 3 unreachable, 4 denied, 5 damage was left out.
"""

from mqstore.commands.shortage import telling_shortage

with telling_shortage("mqpipeline"):
    from mqpipeline.cli.main import main

__all__ = ["main"]
