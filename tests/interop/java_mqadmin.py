"""Java's mqadmin in a JVM of its own, the failures in its output, and our mqadmin."""

from __future__ import annotations

import io
import re
import subprocess
from contextlib import redirect_stdout
from pathlib import Path

from mqadmin import main
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


def run_ours(*words: str, form: str = "rocketmq") -> str:
    """The output of one command of our mqadmin, which must succeed."""
    output = io.StringIO()
    with redirect_stdout(output):
        code = main([*words, "--output", form])
    assert code == 0, words
    return output.getvalue()


def has_failed(text: str) -> bool:
    """Whether a command's output has a stack trace: RocketMQ's exit code is 0 even then."""
    return _STACK_TRACE.search(text) is not None
