"""docs/offline.md: its commands print the output on the page, except numbers and times."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mqserver.embedded.testing import free_port
from tests.test_docs import ROOT, Page, blocks, shell_lines

SHOWN = re.compile(r"\|\| echo \"exit code \$\?\"$")
NUMBERS = re.compile(r"[0-9A-Fa-f.:+-]*\d[\w.:+-]*")
PLACES = re.compile(r"\S*/(disk)\b")


def words(text: str) -> list[str]:
    """Lines without numbers, rules and widths."""
    plain = (
        PLACES.sub(r"\1", NUMBERS.sub("#", line.replace("never", "0")))
        for line in text.splitlines()
    )
    lines = [" ".join(line.replace("─", " ").split()) for line in plain]
    return sorted({line for line in lines if line})


def output_of(line: str, page: Page) -> str:
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        cwd=page.directory,
        env=page.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, f"$ {line}\n{run.stdout}"
    return run.stdout


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("rocketmq-ports")
def test_the_page_shows_what_the_commands_print(tmp_path: Path) -> None:
    page = Page(tmp_path)
    namesrv, broker = free_port(), free_port()
    page.environment |= {"NAMESRV_ADDR": f"127.0.0.1:{namesrv}"}
    shown, printed = 0, ""
    try:
        for language, text in blocks(ROOT / "docs" / "offline.md"):
            if language == "text":
                assert set(words(text)) <= set(words(printed)), printed
                shown += 1
                continue
            if language == "python":
                page.python(text)
                continue
            printed = ""
            for line in shell_lines(text):
                if line.startswith("mqserver standalone"):
                    ports = f"--set listenPort={broker} --set-namesrv listenPort={namesrv}"
                    page.start(f"{line} {ports}")
                else:
                    printed += output_of(line, page)
    finally:
        page.stop()
    assert shown == 7


def test_nothing_needs_a_socket() -> None:
    """The commands import no client and no server."""
    script = (
        "import sys, mqstore.cli, mqstore.offline.export; "
        "print([m for m in sys.modules if m.split('.')[0] in ('mqclient', 'mqserver')])"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.stdout.strip() == "[]"
