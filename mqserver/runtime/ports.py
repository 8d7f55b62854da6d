"""Errors of a port that cannot be bound."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["naming_port"]


@contextmanager
def naming_port(port: str, setting: str) -> Iterator[None]:
    """Have the error of a port that is in use name the port and the setting that changes it."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        text = f"port {port} is in use: {error.strerror or error}"
        advice = f"stop the other server or set another {setting}"
        raise OSError(error.errno, f"{text}; {advice}") from error
