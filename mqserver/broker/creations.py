"""Announces and saves new and changed topics, so that no thread of a family has to wait."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("mqserver.broker")

Done = Callable[[Exception | None], None]


class Creations:
    """Holds a request until the NameServers know its topic and the topics' file is saved.

    announce: tells the NameServers; waits for a bounded time. saved: calls back when the file is
    saved, which happens during the announcement. Requests that arrive during an announcement share
    the next one.
    """

    def __init__(
        self,
        announce: Callable[[], None],
        saved: Callable[[Done], None],
        thread: str = "creations",
    ) -> None:
        self._name = thread
        self._announce = announce
        self._saved = saved
        self._waiting: list[Done] = []
        self._news = threading.Condition()
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    def when_done(self, done: Done) -> None:
        """Announce and save soon, without waiting; `done` is called afterwards."""
        with self._news:
            self._waiting.append(done)
            if self._thread is None and not self._is_stopping:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._news.notify()

    def stop(self) -> None:
        """Finish the sends that wait, and end the thread."""
        with self._news:
            self._is_stopping = True
            self._news.notify()
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._waiting or self._is_stopping)
                waiting, self._waiting = self._waiting, []
                if not waiting:
                    return
            batch = _Batch(waiting)
            self._saved(batch.saved)
            try:
                self._announce()
            except Exception:
                log.exception("new topics could not be announced to the NameServers")
            batch.announced()


class _Batch:
    """Requests that continue when their topics are both announced and saved."""

    def __init__(self, waiting: list[Done]) -> None:
        self._waiting = waiting
        self._lock = threading.Lock()
        self._is_half_done = False
        self._failure: Exception | None = None

    def saved(self, failure: Exception | None) -> None:
        """The file is saved, or could not be."""
        self._failure = failure
        self._one_half()

    def announced(self) -> None:
        """The NameServers know the topics, or were asked for long enough."""
        self._one_half()

    def _one_half(self) -> None:
        with self._lock:
            if not self._is_half_done:
                self._is_half_done = True
                return
        for done in self._waiting:
            try:
                done(self._failure)
            except Exception:
                log.exception("a request could not go on after its topic was created")
