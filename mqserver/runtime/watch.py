"""Watches files that may change while a server runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from mqserver.runtime.services import Services

Stamp = tuple[int, int, int, int]
"""Identifies a version of a file: modification time in ns, size, inode, device."""


def stamp(path: str | os.PathLike[str]) -> Stamp | None:
    """A file's stamp, which stays equal until the file changes; None if the file does not exist.

    Raises OSError if the file exists and its facts cannot be read.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev)


class Watch:
    """Calls `look` at regular intervals on a thread of its own, from `start` to `stop`.

    name: of the thread. look: `services` logs and counts an exception, and the calls continue.
    every_s: seconds between two calls.
    """

    def __init__(
        self,
        name: str,
        look: Callable[[], None],
        every_s: float,
        services: Services | None = None,
    ) -> None:
        self._look = look
        self._services = services or Services()
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, services: Services | None = None) -> None:
        """Start the thread; call this once. services: count the calls that fail."""
        self._services = services or self._services
        self._thread.start()

    def stop(self) -> None:
        """End the thread, if there is one."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            with self._services.round(self._thread.name):
                self._look()
