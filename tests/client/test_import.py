"""`import mqclient` stays fast: slow modules are imported at their first use."""

import subprocess
import sys

HEAVY = {
    "asyncio",
    "click",
    "rich",
    "numpy",
    "zstandard",
    "ssl",
    "mqcommon._core",
    "mqcommon._codec",
}


def imported_by(statement: str) -> set[str]:
    code = f"{statement}; import sys; print('\\n'.join(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(result.stdout.split())


def test_the_package_imports_nothing_heavy():
    assert not imported_by("import mqclient") & HEAVY


def test_a_producer_needs_neither_click_nor_numpy():
    loaded = imported_by("from mqclient import Producer, PushConsumer, Message")
    assert not loaded & {"click", "rich", "numpy"}


def test_the_command_line_imports_its_commands_lazily():
    loaded = imported_by("import mqclient.cli")
    assert not loaded & {"rich", "numpy", "asyncio", "mqclient.cli.send", "mqclient.cli.tail"}
