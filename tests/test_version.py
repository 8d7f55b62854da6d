"""Every command and every package says which version it is."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

MODULES = {
    "mqserver": "mqserver.cli",
    "mqclient": "mqclient.cli",
    "mqstore": "mqstore.cli",
    "mqpipeline": "mqpipeline.cli",
    "mqadmin": "mqadmin",
    "mqstack": "mqserver.mqstack",
}


@pytest.mark.parametrize("command", MODULES)
def test_a_command_says_its_version(command: str) -> None:
    run = f"import sys; from {MODULES[command]} import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", run, "--version"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{command} {version('mqstack')}\n"


@pytest.mark.parametrize("package", ["mqstore", "mqclient", "mqpipeline", "mqserver"])
def test_a_package_says_its_version_and_reads_it_late(package: str) -> None:
    code = (
        f"import sys, {package}; early = 'importlib.metadata' in sys.modules; "
        f"print({package}.__version__, early)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == f"{version('mqstack')} False\n"
