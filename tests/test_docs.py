"""Every command and Python block of README and docs runs, in order, page by page.

A line that starts a server stays in the background until its page ends. Blocks fenced as `text`
are output, shown for the reader. The servers of a page use RocketMQ's own ports.
"""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SERVER = re.compile(r"^mqserver (standalone|namesrv start|broker start)\b")
# What the check that runs this very test runs too, or what takes as long as it.
RUN_ELSEWHERE = re.compile(
    r"^(make|cargo|maturin|python setup.py|docker|git clone|cd |pip install)"
)
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def blocks(page: Path) -> list[tuple[str, str]]:
    return FENCE.findall(page.read_text())


class Page:
    """Runs the blocks of one page in one directory, with one set of servers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.servers: list[subprocess.Popen[str]] = []
        bin_directory = str(Path(sys.executable).parent)
        self.environment = {**os.environ, "PATH": f"{bin_directory}:{os.environ['PATH']}"}

    def command(self, line: str) -> None:
        if SERVER.match(line):
            self.start(line)
            return
        run = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=520,
        )
        assert run.returncode == 0, f"$ {line}\n{run.stdout}{run.stderr}"

    def start(self, line: str) -> None:
        server = subprocess.Popen(
            shlex.split(line),
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.servers.append(server)
        assert server.stdout
        last = "broker" if " namesrv " not in line else "Name Server"
        seen = ""
        for output in server.stdout:
            seen += output
            if last in output and "boot success" in output:
                return
        raise AssertionError(f"$ {line}\n{seen}")

    def python(self, text: str) -> None:
        if re.search(r"^def test_", text, re.MULTILINE):
            (self.directory / "test_block.py").write_text(text)
            self.command(f"{shlex.quote(sys.executable)} -m pytest -q test_block.py")
            return
        self.command(f"timeout 500 {shlex.quote(sys.executable)} -c {shlex.quote(text)}")

    def stop(self) -> None:
        for server in reversed(self.servers):
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=60) == 0


def shell_lines(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        line = line.split("  #")[0].strip().removeprefix("$ ")
        if line and not line.startswith("#"):
            yield line


def ports_are_free() -> bool:
    for port in (9876, 10911):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


@pytest.mark.xdist_group("rocketmq-ports")
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_page_runs(page: Path, tmp_path: Path) -> None:
    if not ports_are_free():
        pytest.skip("ports 9876 and 10911 are in use on this machine; the pages need them")
    run = Page(tmp_path)
    try:
        for language, text in blocks(page):
            if language == "python":
                run.python(text)
            elif language == "sh":
                for line in shell_lines(text):
                    if RUN_ELSEWHERE.match(line):
                        target = re.match(r"make ([a-z-]+)", line)
                        assert not target or target[1] in MAKE_TARGETS
                    else:
                        run.command(line)
            else:
                assert language in ("text", "toml", "properties", "json"), language
    finally:
        run.stop()


def test_readme_has_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make quickstart" in text
    assert "make test" in text


def test_quickstart_target_runs_the_main_job() -> None:
    plan = subprocess.run(
        ["make", "--dry-run", "quickstart"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "mqserver quickstart" in plan.stdout
