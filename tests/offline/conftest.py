"""Golden store directories, unpacked once; commands on a terminal."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.common.golden import GOLDEN, extract

Facts = dict[str, tuple[int, int, int]]


@pytest.fixture(scope="session")
def unpacked() -> dict[str, tuple[Path, Facts]]:
    """The golden stores in use, by name: the root, and its facts after unpacking."""
    return {}


@pytest.fixture(scope="session")
def golden_store(tmp_path_factory, unpacked):
    """Give the root of a golden store by name; shared, so read it only."""

    def root(name):
        if name not in unpacked:
            if not (GOLDEN / name / "store.tar.gz").exists():
                pytest.skip(f"tests/golden/{name} is not there")
            made = extract(name, tmp_path_factory.mktemp("golden"))
            unpacked[name] = made, facts(made)
        return unpacked[name][0]

    return root


def facts(root: Path) -> Facts:
    """Facts that change if a file or directory is made, removed, replaced, truncated or written."""
    found = {}
    for path in (root, *root.rglob("*")):
        seen = path.lstat()
        found[str(path.relative_to(root))] = (seen.st_ino, seen.st_size, seen.st_mtime_ns)
    return found


@pytest.fixture(autouse=True)
def golden_stores_stay(unpacked: dict[str, tuple[Path, Facts]]) -> Iterator[None]:
    """A test that changes a shared store fails itself, and not the later tests that read it."""
    yield
    changed = [name for name, (root, seen) in unpacked.items() if facts(root) != seen]
    for name in changed:
        del unpacked[name]  # the next test gets a new one
    assert not changed, "this test changed a store that is shared; it needs a copy of its own"


class Terminal:
    """A command whose standard error is a terminal."""

    def __init__(self, *words, package="mqstore"):
        self.master, slave = os.openpty()
        program = f"import sys; from {package}.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", program, *map(str, words)]
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=slave, env=environment
        )
        os.close(slave)

    def shown(self, word=None):
        """The terminal output up to a word, or until the terminal is closed."""
        seen = b""
        with contextlib.suppress(OSError):  # EIO: no process has it open any more
            while word is None or word.encode() not in seen:
                seen += os.read(self.master, 1 << 16)
        return seen.decode()


@pytest.fixture
def terminal():
    """Start a command whose standard error is a terminal."""
    opened = []

    def start(*words, package="mqstore"):
        opened.append(Terminal(*words, package=package))
        return opened[-1]

    yield start
    for one in opened:
        one.process.kill()
        one.process.wait(60)
        one.process.stdout.close()
        os.close(one.master)
