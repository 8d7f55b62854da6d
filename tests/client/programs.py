"""Programs that tests run in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

EXIT_TIMEOUT_S = 30.0
"""Much longer than a process needs to end, and much shorter than any wait of its own."""


class Program:
    """A Python program in its own process; its warnings are printed like errors."""

    def __init__(self, text: str, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "always", "-c", textwrap.dedent(text), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def wait_for(self, line: str) -> None:
        assert self.process.stdout
        for found in self.process.stdout:
            if found.strip() == line:
                return
        raise AssertionError(f"no line {line!r}: {self.process.communicate()}")

    def end(self, number: int | None = None) -> tuple[int, str, str]:
        """Exit code, standard output and standard error, after the given signal."""
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=EXIT_TIMEOUT_S)
        return self.process.returncode, out, err


def run(text: str, *arguments: str, **environment: str) -> tuple[int, str, str]:
    with Program(text, *arguments, **environment) as program:
        return program.end()
