"""Files that are looked at again and again while a server runs: the one watcher of them all."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from mqserver.services import Services

Stamp = tuple[int, int, int, int]
"""What changes when a file does: modification time in ns, size, inode, device."""


def stamp(path: str | os.PathLike[str]) -> Stamp | None:
    """A file's stamp: equal as long as nothing changed; None while there is no such file.

    Raises OSError for a file that is there and cannot be looked at.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev)


class Watch:
    """Calls `look` every so often, on a thread of its own, from `start` to `stop`.

    name: the thread's. look: if it raises, `services` takes note, and it is called again the next
    time. every_s: seconds between two looks.
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
        """Begin; once. services: take note of looks that fail."""
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
