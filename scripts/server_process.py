"""Starts a process for tests and benches, waits for a line of its output, and always stops it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


class ServerProcess:
    """A child process whose output lines are kept, and which never outlives its test.

    ready: text of the line to wait for; a process that does not print it is killed.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        ready: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.command = list(command)
        self._how = {"cwd": cwd, "ready": ready, "env": env}
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        self._child = subprocess.Popen(
            self.command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            bufsize=1,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if ready is not None:
            self._await_ready(ready)

    def again(self) -> ServerProcess:
        """Start the same command in a new process, after this one has ended."""
        return ServerProcess(self.command, **self._how)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    @property
    def has_ended(self) -> bool:
        """Whether the child has ended."""
        return self._child.poll() is not None

    @property
    def output(self) -> str:
        """Everything printed so far."""
        with self._news:
            return "\n".join(self.lines)

    def _await_ready(self, ready: str) -> None:
        try:
            self.await_line(ready)
        except BaseException:
            self.kill()
            raise

    def await_line(self, text: str, timeout: float = 120.0) -> str:
        """The first line of output with `text`; fails if the process ends without printing it."""
        deadline = time.monotonic() + timeout
        seen = 0
        with self._news:
            while True:
                for line in self.lines[seen:]:
                    if text in line:
                        return line
                seen = len(self.lines)
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    why = "it ended" if self._ended else f"not in {timeout} s"
                    printed = "\n".join(self.lines[-40:])
                    raise AssertionError(
                        f"no line {text!r} from {self.command[:6]}…: {why}\n{printed}"
                    )
                self._news.wait(left)

    def write_line(self, line: str) -> None:
        """Send one line to the process's standard input."""
        assert self._child.stdin is not None
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()

    def stop(self, timeout: float = 60.0) -> int:
        """Send SIGTERM and wait; then SIGKILL if it has not ended in time. Returns the exit
        code."""
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
            try:
                self._child.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
        return self._reap()

    def kill(self) -> int:
        """Send SIGKILL, to simulate a crash. Returns the exit code."""
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait(60)
        return self._reap()

    def _reap(self) -> int:
        self._reader.join(60)
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()
        return self._child.returncode

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._heard(line.rstrip("\n"))
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _heard(self, line: str) -> None:
        with self._news:
            self.lines.append(line)
            self._news.notify_all()
