"""Files that are looked at again and again while a server runs: the one watcher of them all."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

log = logging.getLogger("mqserver")

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

    name: the thread's. look: if it raises, that is logged, and it is called again the next time.
    every_s: seconds between two looks.
    """

    def __init__(self, name: str, look: Callable[[], None], every_s: float) -> None:
        self._look = look
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, if there is one."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            try:
                self._look()
            except Exception:
                log.exception("%s failed; trying again in %g s", self._thread.name, self._every_s)
