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

from tests.waiting import until

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CLIENT = ROOT / "docs" / "client" / "index.md"
"""Starts the server and sends the messages that every page of its folder goes on from."""
LONG = {"pipeline.md"}
"""Pages that take minutes, as each command starts Spark: run by `make soak`."""
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SERVER = re.compile(r"^mqserver (standalone|namesrv start|broker start)\b")
PORTS = (9876, 10911)
PORTS_FREE_TIMEOUT_S = 60.0
PATIENCE = ("--set", "waitTimeMillsInSendQueue=60000", "--set", "osPageCacheBusyTimeOutMills=60000")
"""On a busy machine no send is refused because it waited."""
# Commands that run in another check of the same run, or that take as long as one.
RUN_ELSEWHERE = re.compile(
    r"^(make|cargo|maturin|python setup.py|docker|kubectl|sudo |git clone|cd |pip install)"
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
        if not self.servers:
            wait_for_ports(line)
        server = subprocess.Popen(
            [*shlex.split(line), *([] if " namesrv " in line else PATIENCE)],
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


def wait_for_ports(line: str) -> None:
    """Wait until a page may start its first server: the tests of another checkout may run here."""
    assert until(lambda: not ports_in_use(), PORTS_FREE_TIMEOUT_S), (
        f"ports {ports_in_use()} are in use, and `{line}` needs them: end what listens there "
        "(ss -ltnp), or give the tests a network of their own: "
        "unshare -rn sh -c 'ip link set lo up; pytest tests/test_docs.py'"
    )


def ports_in_use() -> list[int]:
    return [port for port in PORTS if is_in_use(port)]


def is_in_use(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


@pytest.mark.xdist_group("rocketmq-ports")
@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=[pytest.mark.soak] if p.name in LONG else []) for p in PAGES],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_page_runs(page: Path, tmp_path: Path) -> None:
    run = Page(tmp_path)
    before = blocks(CLIENT) if page.parent == CLIENT.parent and page != CLIENT else []
    try:
        for language, text in [*before, *blocks(page)] if blocks(page) else []:
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


def test_a_page_whose_ports_are_taken_fails_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "PORTS_FREE_TIMEOUT_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setitem(globals(), "PORTS", (port,))
        with pytest.raises(AssertionError, match=rf"ports \[{port}\] are in use"):
            Page(tmp_path).command("mqserver standalone")


def test_readme_has_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make quickstart" in text
    assert "make test" in text


def test_quickstart_target_runs_the_main_job() -> None:
    plan = subprocess.run(
        ["make", "--dry-run", "quickstart"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "mqserver quickstart" in plan.stdout


def test_the_page_of_golden_files_names_every_recording() -> None:
    golden = ROOT / "tests" / "golden"
    page = re.sub(r"```.*?```", "", (golden / "README.md").read_text(), flags=re.DOTALL)
    named = {word.rstrip("/") for word in re.findall(r"`([^`]+)`", page)}
    sessions = {path.name.removesuffix(".jsonl.gz") for path in (golden / "wire").iterdir()}
    recorded = {path.name for path in golden.iterdir() if path.is_dir()} | {
        # A session in the ROCKETMQ header format is named with its twin.
        name if name in named else name.removesuffix("-rocketmq")
        for name in sessions
    }
    missing = recorded - named
    assert not missing, f"add to tests/golden/README.md: {sorted(missing)}"
