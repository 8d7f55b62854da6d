"""A line on standard error that says how far a command is."""

from __future__ import annotations

import shutil
import sys
import time

__all__ = ["StatusLine"]

_INTERVAL_S = 0.2
_ERASE = "\r\x1b[K"
"""Moves to the start of the line and empties it."""


class StatusLine:
    """Shows one line, which is replaced and at last removed; nothing where standard error is no
    terminal. Clear it before other text is written to the terminal.
    """

    def __init__(self) -> None:
        self.is_terminal = sys.stderr.isatty()
        self._is_shown = False
        self._due = time.monotonic() + _INTERVAL_S

    def show(self, text: str) -> None:
        """Show a text instead of the last one; five times a second at most."""
        now = time.monotonic()
        if self.is_terminal and now >= self._due:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"{_ERASE}{text[:width]}")
            sys.stderr.flush()
            self._is_shown, self._due = True, now + _INTERVAL_S

    def clear(self) -> None:
        """Remove the line."""
        if self._is_shown:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()
            self._is_shown = False
