"""The threads of a server that must go on while it runs: what failed, and what fails now."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

log = logging.getLogger("mqserver")

Failures = Mapping[str, tuple[int, str | None]]
"""By service: how many of its rounds failed since the start, and why if the last one did."""

HELP = "Rounds of a service thread that failed"
"""Of the metric, in both servers."""


def is_failure(error: BaseException) -> bool:
    """Whether it is no request to end: an exception, or a panic of the compiled core."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


class Services:
    """The services of one server, by the names of their threads.

    An exception would end a thread without a word: what it does would no longer be done. Each
    round of such a thread runs in `round` instead.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: dict[str, tuple[int, str | None]] = {}
        self._others: list[Callable[[], Failures]] = []

    def follow(self, failures: Callable[[], Failures]) -> None:
        """Show these failures too: those of the compiled threads."""
        with self._lock:
            self._others.append(failures)

    @contextmanager
    def round(self, name: str) -> Iterator[None]:
        """One round of a service: its exception is logged and counted, and the caller goes on."""
        try:
            yield
        except BaseException as error:
            if not is_failure(error):
                raise
            log.exception("%s failed; it goes on", name)
            self.failed(name, f"{type(error).__name__}: {error}")
        else:
            self.succeeded(name)

    def failed(self, name: str, reason: str) -> None:
        """A round failed; the caller logs it."""
        with self._lock:
            count, _ = self._failed.get(name, (0, None))
            self._failed[name] = (count + 1, reason)

    def succeeded(self, name: str) -> None:
        """A round succeeded."""
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
        """What fails now, for `/ready`; None if nothing does."""
        failing = sorted((name, why) for name, (_, why) in self.failures().items() if why)
        return "; ".join(f"{name} fails: {why}" for name, why in failing) or None
