"""Threads that run as long as the server, with counts of their failures."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

log = logging.getLogger("mqserver")

Failures = Mapping[str, tuple[int, str | None]]
"""By service: number of failed rounds since the start, and the reason if the last round failed."""

HELP = "Rounds of a service thread that failed"
"""Help text of the metric, the same in both servers."""


def is_failure(error: BaseException) -> bool:
    """Whether this is an exception or a panic of the compiled core, not a request to end."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


class Services:
    """The services of one server, by the names of their threads.

    An exception would end a thread silently, and its work would stop. Each round of such a thread
    therefore runs inside `round`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: dict[str, tuple[int, str | None]] = {}
        self._others: list[Callable[[], Failures]] = []

    def follow(self, failures: Callable[[], Failures]) -> None:
        """Report these failures too. The compiled threads count their own."""
        with self._lock:
            self._others.append(failures)

    @contextmanager
    def round(self, name: str) -> Iterator[None]:
        """Run one round of a service; an exception is logged and counted, and does not pass on."""
        try:
            yield
        except BaseException as error:
            if not is_failure(error):
                raise
            log.exception("%s failed; it will try again", name)
            self.failed(name, f"{type(error).__name__}: {error}")
        else:
            self.succeeded(name)

    def failed(self, name: str, reason: str) -> None:
        """Count a failed round; the caller logs it."""
        with self._lock:
            count, _ = self._failed.get(name, (0, None))
            self._failed[name] = (count + 1, reason)

    def succeeded(self, name: str) -> None:
        """Note that a round succeeded."""
        if name not in self._failed:
            return
        with self._lock:
            count, reason = self._failed[name]
            self._failed[name] = (count, None)
        if reason is not None:
            log.warning("%s works again", name)

    def is_failing(self, name: str) -> bool:
        """Whether the last round of a service failed."""
        return self._failed.get(name, (0, None))[1] is not None

    def failures(self) -> dict[str, tuple[int, str | None]]:
        """Every service that failed since the start."""
        with self._lock:
            found, others = dict(self._failed), list(self._others)
        for failures in others:
            found.update(failures())
        return found

    def unready(self) -> str | None:
        """The services whose last round failed, for `/ready`; None if there are none."""
        failing = sorted((name, why) for name, (_, why) in self.failures().items() if why)
        return "; ".join(f"{name} fails: {why}" for name, why in failing) or None
