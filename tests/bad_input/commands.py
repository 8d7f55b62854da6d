"""Runs `mqserver` commands and waits for their output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

TIMEOUT_S = 60.0


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "mqserver.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, **environment},
    )


class Server:
    """A command that runs until it is stopped."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mqserver.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []

    def wait_for(self, text: str) -> str:
        """Read lines until one holds the text; fails with everything read if none does."""
        assert self.process.stdout is not None
        expired = threading.Timer(TIMEOUT_S, self.process.kill)
        expired.start()
        try:
            for line in self.process.stdout:
                self.lines.append(line.rstrip("\n"))
                if text in line:
                    return self.lines[-1]
        finally:
            expired.cancel()
        raise AssertionError(f"{text!r} was not printed: {self.lines}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal the process and wait for its exit code."""
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=TIMEOUT_S)
        self.lines += rest.splitlines()
        return self.process.returncode


@contextmanager
def running(*arguments: str) -> Iterator[Server]:
    """A server that is killed at the end if it still runs."""
    server = Server(*arguments)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        if server.process.stdout is not None:
            server.process.stdout.close()
        server.process.wait()
