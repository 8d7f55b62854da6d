"""A command starts fast: it imports its own module, and of the client only what it uses."""

from __future__ import annotations

import subprocess
import sys

import pytest

UNUSED = {
    "mqclient.admin.dead_letters",
    "mqclient.admin.lag",
    "mqclient.admin.messages",
    "mqclient.admin.plans",
    "mqclient.producer.producer",
    "mqclient.settings.producers",
    "mqclient.settings.values",
    "numpy",
}
"""Modules that most commands do not use, and that are slow to import."""
UNREACHABLE = "127.0.0.1:1"


def loaded_by(words: list[str], code: int) -> set[str]:
    """The modules that a command has imported when it ends with an exit code."""
    program = (
        "import sys\n"
        "from mqadmin import main\n"
        "code = main(sys.argv[1:])\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)\n"
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, done.stderr
    return set(done.stderr.splitlines())


def commands_in(modules: set[str]) -> set[str]:
    """The modules of commands; their packages do not count."""
    named = (module.split(".") for module in modules if module.startswith("mqadmin.commands."))
    return {parts[-1] for parts in named if len(parts) == 4}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["help", "topicRoute"], 0),
        (["topicRoute", "-t", "T", "-n", UNREACHABLE], 3),
    ],
)
def test_topic_route_imports_what_it_uses(words: list[str], code: int) -> None:
    loaded = loaded_by(words, code)
    assert commands_in(loaded) == {"topic_route"}
    assert not loaded & UNUSED


def test_a_command_imports_its_own_module_only() -> None:
    assert commands_in(loaded_by(["help", "dlq", "list"], 0)) == {"dlq_list"}


def test_the_list_of_commands_imports_those_with_a_description() -> None:
    commands = commands_in(loaded_by([], 0))
    assert {"lag", "dlq_list"} <= commands
    assert "topic_route" not in commands
