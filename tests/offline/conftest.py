"""Golden store directories, unpacked once; commands on a terminal."""

import contextlib
import os
import subprocess
import sys

import pytest

from tests.format.golden import GOLDEN, extract


@pytest.fixture(scope="session")
def golden_store(tmp_path_factory):
    """Give the root of a golden store by name; shared, so read it only."""
    unpacked = {}

    def root(name):
        if name not in unpacked:
            if not (GOLDEN / name / "store.tar.gz").exists():
                pytest.skip(f"tests/golden/{name} is not there")
            unpacked[name] = extract(name, tmp_path_factory.mktemp("golden"))
        return unpacked[name]

    return root


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
        """What is written to the terminal until a word appears, or it is closed."""
        seen = b""
        with contextlib.suppress(OSError):  # EIO: nobody has it open any more
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
