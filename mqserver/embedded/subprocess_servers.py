"""A NameServer and a broker in a process of their own, which can be killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from mqcommon.cli.exit_codes import POISONED

READY = "ready: "
"""Start of the line that the process prints once both servers answer: `ready: NAMESRV BROKER`."""
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0


class SubprocessServers:
    """The process of all servers. data: the store's directory. slaves: number of slaves."""

    def __init__(
        self,
        data: Path,
        namesrv_settings: Mapping[str, str],
        broker_settings: Mapping[str, str],
        slaves: int = 0,
    ) -> None:
        self._data = data
        self._slaves = slaves
        self._namesrv_settings = namesrv_settings
        self._broker_settings = broker_settings
        self._process: subprocess.Popen[str] | None = None
        self.namesrv = ""
        self.broker = ""
        self.advertised_address = ""
        self.address_origin = "the child's own choice"
        self.warnings: tuple[str, ...] = ()

    @property
    def pid(self) -> int:
        """Id of the running process."""
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> None:
        """Start the process and wait for its ready line. Raises RuntimeError with its output."""
        command = [sys.executable, "-m", "mqserver.cli", "standalone", "--data", str(self._data)]
        if self._slaves:
            command += ["--slaves", str(self._slaves)]
        for key, value in self._broker_settings.items():
            command += ["--set", f"{key}={value}"]
        for key, value in self._namesrv_settings.items():
            command += ["--set-namesrv", f"{key}={value}"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._process = process
        lines = self._lines_until_ready(process)
        if not lines or not lines[-1].startswith(READY):
            process.kill()
            process.wait()
            raise RuntimeError("standalone did not start: " + " | ".join(lines))
        self.namesrv, self.broker = lines[-1].removeprefix(READY).split()
        self.advertised_address = self.broker

    @staticmethod
    def _lines_until_ready(process: subprocess.Popen[str]) -> list[str]:
        assert process.stdout is not None
        lines: list[str] = []
        expired = threading.Timer(START_TIMEOUT_S, process.kill)
        expired.start()
        try:
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if lines[-1].startswith(READY):
                    break
        finally:
            expired.cancel()
        threading.Thread(target=process.stdout.read, daemon=True).start()
        return lines

    def stop(self) -> None:
        """Send SIGTERM and wait; after STOP_TIMEOUT_S send SIGKILL."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    @property
    def poisoned(self) -> bool:
        """After `stop`: whether the store could not be closed whole."""
        return self._process is not None and self._process.returncode == POISONED

    def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
