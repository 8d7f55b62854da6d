"""Process-wide changes of a server: the last server that stops undoes them.

These are the interval at which Python switches threads, the hook for errors that end a thread, the
umask, and the mode of new files.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import NamedTuple

from mqcommon import files
from mqserver.runtime.data_plane import SWITCH_INTERVAL_S

__all__ = ["Hold", "remember"]


class _Before(NamedTuple):
    """The process as it was before its first server."""

    switch_interval_s: float
    excepthook: object
    umask: int
    file_mode: int


_lock = threading.Lock()
_before: _Before | None = None
_holds = 0


def remember() -> None:
    """Note how the process is, before the first change; later calls do nothing."""
    with _lock:
        _note()


def _note() -> None:
    global _before
    if _before is None:
        umask = os.umask(0o077)
        os.umask(umask)
        hook, mode = threading.excepthook, files.new_file_mode()
        _before = _Before(sys.getswitchinterval(), hook, umask, mode)


class Hold:
    """The hold of one running server: while any server holds, Python switches threads often."""

    def __init__(self) -> None:
        self._is_held = False

    def take(self) -> None:
        """The server starts. Twice is fine."""
        global _holds
        with _lock:
            _note()
            _holds += not self._is_held
            self._is_held = True
            sys.setswitchinterval(SWITCH_INTERVAL_S)

    def give_back(self) -> None:
        """The server has stopped; the last one leaves the process as it was. Twice is fine."""
        global _before, _holds
        with _lock:
            _holds -= self._is_held
            self._is_held = False
            if _before is None or _holds:
                return
            sys.setswitchinterval(_before.switch_interval_s)
            threading.excepthook = _before.excepthook  # type: ignore[assignment]
            files.restore_mode(_before.file_mode, _before.umask)
            _before = None
