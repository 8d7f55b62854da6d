"""Writes state files: at once if a reply depends on it, otherwise several changes together."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from mqcommon.backoff import Backoff
from mqserver.runtime.services import Services

log = logging.getLogger("mqserver.broker")
DELAY_S = 0.1
"""Longest time from a change until it is written."""


THREAD = "state-saver"
RETRY_MAX_S = 10.0
"""Longest pause before a failed save is tried again; the pause doubles from DELAY_S up to this."""


class Saver:
    """Renders and saves named state files.

    save: writes one file atomically and durably (`Store.save_state`). services: records whether
    saves succeed.
    """

    def __init__(
        self, save: Callable[[str, bytes], None], services: Services | None = None
    ) -> None:
        self._save = save
        self._services = services or Services()
        self._renders: dict[str, Callable[[], bytes]] = {}
        self._dirty: set[str] = set()
        self._due_at = 0.0
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._hurry = threading.Event()
        self._waiting: dict[str, list[Callable[[Exception | None], None]]] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._failed: set[str] = set()
        self._retry_at = 0.0
        self._backoff = Backoff(DELAY_S, RETRY_MAX_S)
        self._asked: Counter[str] = Counter()
        self._covered: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)

    def add(self, name: str, render: Callable[[], bytes]) -> None:
        """Register a file and the function that renders it."""
        self._renders[name] = render

    def mark(self, name: str) -> None:
        """Save this file soon."""
        with self._lock:
            if not self._dirty:
                self._due_at = time.monotonic() + DELAY_S
            self._dirty.add(name)
        self._wake.set()

    def save_now(self, name: str) -> None:
        """Save this file before returning; callers that wait at the same time share one write.

        Raises OSError; the save is then tried again later.
        """
        with self._lock:
            self._dirty.discard(name)
            self._asked[name] += 1
            mine = self._asked[name]
        with self._writing:
            if self._covered[name] >= mine:
                return
            covered = self._asked[name]
            try:
                self._save(name, self._renders[name]())
            except Exception as error:
                self._put_off(name, error)
                raise
            self._covered[name] = covered
            self._failed.discard(name)
            if not self._failed:
                self._backoff.reset()
                self._services.succeeded(THREAD)

    def when_saved(self, name: str, done: Callable[[Exception | None], None]) -> None:
        """Save this file at once without waiting; `done` is called with None or with the error.

        Calls that come during a write share the next write.
        """
        with self._lock:
            self._waiting.setdefault(name, []).append(done)
        self._hurry.set()
        self._wake.set()

    def start(self) -> None:
        """Start the thread that saves marked files."""
        self._thread.start()

    def stop(self) -> None:
        """Save the marked files and end the thread."""
        self._stopping.set()
        self._hurry.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=5.0)
        self._save_dirty()

    def _run(self) -> None:
        while not self._stopping.is_set():
            if not self._dirty:
                self._wake.wait(self._backoff.pause_s if self._failed else None)
            self._wake.clear()
            self._hurry.wait(max(0.0, self._due_at - time.monotonic()))
            if not self._stopping.is_set():
                self._hurry.clear()
            self._save_dirty()

    def _save_dirty(self) -> None:
        """Save the files that callers wait for, and the marked files once they are due.

        A marked file is not written each time a caller waits for another file.
        """
        with self._lock:
            now, is_last = time.monotonic(), self._stopping.is_set()
            names = set(self._waiting)
            if is_last or now >= self._due_at:
                names |= self._dirty
            if is_last or now >= self._retry_at:
                names |= self._failed
            self._dirty -= names
            waiting, self._waiting = self._waiting, {}
        for name in sorted(names):
            failure = self._saved(name)
            for done in waiting.get(name, ()):
                try:
                    done(failure)
                except Exception:
                    log.exception("a callback failed after %s was saved", name)

    def _saved(self, name: str) -> Exception | None:
        try:
            self.save_now(name)
        except OSError as error:
            log.error("cannot save %s; next try in %.1f s: %s", name, self._backoff.pause_s, error)
            return error
        except Exception as error:  # waiting callers get the error, and the thread continues
            log.exception("cannot save %s; next try in %.1f s", name, self._backoff.pause_s)
            return error
        return None

    def _put_off(self, name: str, error: Exception) -> None:
        """Note a file that could not be saved, for another try."""
        self._failed.add(name)
        self._services.failed(THREAD, f"{name} cannot be saved: {error}")
        self._backoff.grow()
        self._retry_at = time.monotonic() + self._backoff.pause_s
        self._wake.set()
