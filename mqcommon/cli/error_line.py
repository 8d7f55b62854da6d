"""Writes the error line of a command to standard error."""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ["end", "say_error"]


def say_error(label: str, text: str) -> None:
    """Write "label: text" to standard error with one call, because other threads may write too."""
    sys.stderr.write(f"{label}: {text}\n")
    sys.stderr.flush()


def end(label: str, text: str, code: int) -> NoReturn:
    """End the process with an error line and an exit code."""
    say_error(label, text)
    raise SystemExit(code) from None
