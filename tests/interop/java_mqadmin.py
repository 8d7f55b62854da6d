"""Java's mqadmin in a JVM of its own, and the failures in its output."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.interop.java_servers import java_command

MQADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"
ALONE = ("consumeMessage", "sendMessage", "queryMsgByUniqueKey")
"""Commands that Java can run once in a JVM, because they keep a client that they have closed."""
_STACK_TRACE = re.compile(r"^\s+at [\w.$]+\(.*\)$", re.MULTILINE)


def run_alone(home: Path, *words: str) -> str:
    """The output of one command in a new JVM, with the stack trace if it failed."""
    command = java_command(home, MQADMIN, *words)
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    errors = done.stderr.decode()
    return done.stdout.decode() + (errors if has_failed(errors) else "")


def has_failed(text: str) -> bool:
    """Whether a command's output has a stack trace: RocketMQ's exit code is 0 even then."""
    return _STACK_TRACE.search(text) is not None
