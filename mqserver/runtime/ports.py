"""Errors of a port that cannot be bound."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["PortInUseError", "naming_flag", "naming_port"]


class PortInUseError(OSError):
    """A port is in use. setting: the one that changes the port."""

    def __init__(self, text: str, setting: str) -> None:
        super().__init__(errno.EADDRINUSE, text)
        self.setting = setting
        self.flag = ""
        """The option of `mqserver standalone` for settings of this server; "" if unknown."""


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
        raise PortInUseError(f"{text}; {advice}", setting) from error


@contextmanager
def naming_flag(flag: str) -> Iterator[None]:
    """Have the error of a port that is in use know the option for settings of its server."""
    try:
        yield
    except PortInUseError as error:
        error.flag = flag
        raise
