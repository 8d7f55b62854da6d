"""A server's log: files that roll, or standard error. Repeated lines become one line and a count.

With files, standard error has the warnings too.

Only the commands set this up. A server inside another program leaves logging to that program.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from msgspec import Struct

from mqcommon import files
from mqserver.config.loaded import Loaded
from mqserver.runtime import file_modes
from mqserver.runtime.process_state import remember

PERIOD_S = 10.0
"""Within this time, lines that differ only in their digits are logged as one."""
KINDS_MAX = 1_000
STATS = "mqserver.stats"
"""The logger of `stats.log`."""
ANNOUNCED = "mqserver.announced"
"""The logger of lines that a command has printed; standard error does not repeat them."""
_KEY_CHARACTERS_MAX = 200
_DIGITS = re.compile(r"\d+")
_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_Kind = tuple[str, int, str]


class _Seen(Struct):
    """A logged line, with the number of like lines after it.

    until: end of the period, monotonic seconds. more: number of like lines since. last: the newest.
    """

    until: float
    more: int
    last: logging.LogRecord


class FloodHandler(logging.Handler):
    """Passes on the first of like records; at the end of a period it logs the number of others.

    While like records keep coming there is one line a period. now: monotonic seconds.
    """

    def __init__(
        self,
        handlers: Sequence[logging.Handler],
        period: float = PERIOD_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._handlers = handlers
        self._period = period
        self._now = now
        self._seen: dict[_Kind, _Seen] = {}  # in the order in which their periods end
        self._guard = threading.RLock()
        self._more = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-floods", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Pass the record on, or count it."""
        try:
            text = record.getMessage()[:_KEY_CHARACTERS_MAX]
        except (TypeError, ValueError):  # the arguments do not fit the text
            self.handleError(record)
            return
        kind = (record.name, record.levelno, _DIGITS.sub("#", text))
        with self._guard:
            now = self._now()
            self._end(now)
            seen = self._seen.get(kind)
            if seen is not None:
                seen.more += 1
                seen.last = record
                self._more.set()
                return
            if len(self._seen) >= KINDS_MAX:
                self._tell(self._seen.pop(next(iter(self._seen))))
            self._seen[kind] = _Seen(now + self._period, 0, record)
            self._pass(record)

    def _end(self, now: float) -> None:
        """End the periods that are over; a line that was repeated starts another period."""
        while self._seen:
            kind, seen = next(iter(self._seen.items()))
            if seen.until > now:
                return
            del self._seen[kind]
            if seen.more:
                self._tell(seen)
                self._seen[kind] = _Seen(now + self._period, 0, seen.last)

    def _tell(self, seen: _Seen) -> None:
        if seen.more == 0:
            return
        record = copy(seen.last)
        if seen.more > 1:
            more = seen.more - 1
            record.msg = f"{record.getMessage()} (and {more} more like it in {self._period:g} s)"
            record.args = None
        record.exc_info = record.exc_text = None
        self._pass(record)

    def _pass(self, record: logging.LogRecord) -> None:
        for handler in self._handlers:
            if record.levelno >= handler.level:
                handler.handle(record)

    def _run(self) -> None:
        while True:
            self._more.wait()
            if self._ended.wait(self._period / 10):
                return
            with self._guard:
                self._end(self._now())
                if not any(seen.more for seen in self._seen.values()):
                    self._more.clear()

    def flush(self) -> None:
        """Log all counts."""
        with self._guard:
            for seen in self._seen.values():
                self._tell(seen)
                seen.more = 0
        for handler in self._handlers:
            handler.flush()

    def close(self) -> None:
        """Log all counts, and close the handlers."""
        self._ended.set()
        self._more.set()
        self.flush()
        for handler in self._handlers:
            handler.close()
        super().close()


def set_up(loaded: Loaded, server: str) -> None:
    """Set up this process's log as the settings say.

    server: name of the log file: "broker", "namesrv" or "standalone".
    Raises OSError when `logDir` cannot be written, SettingsError for a bad `storeFileMode`.
    """
    file_modes.use(loaded)
    level = logging.getLevelNamesMapping()[str(loaded.values["logLevel"])]
    to_error = logging.StreamHandler(sys.stderr)
    to_error.setLevel(level)
    to_error.addFilter(lambda record: record.name != ANNOUNCED)
    handlers: list[logging.Handler] = [to_error]
    stats = logging.getLogger(STATS)
    stats.propagate = False
    if loaded.values["logDir"]:
        to_error.setLevel(logging.WARNING)
        to_file = _file(loaded, f"{server}.log")
        to_file.setLevel(level)
        handlers.append(to_file)
        stats.addHandler(_file(loaded, "stats.log"))
        stats.setLevel(logging.INFO)
    for handler in handlers:
        handler.setFormatter(logging.Formatter(_FORMAT))
    root = logging.getLogger()
    root.addHandler(FloodHandler(handlers))
    root.setLevel(min(level, logging.WARNING))
    remember()
    threading.excepthook = _thread_ended


def _thread_ended(failed: threading.ExceptHookArgs) -> None:
    """Log the error that ended a thread. Threads that must not end catch their own errors."""
    name = failed.thread.name if failed.thread else "unknown"
    error = failed.exc_value
    logging.getLogger("mqserver").critical("thread %s ended by an error", name, exc_info=error)


def _file(loaded: Loaded, name: str) -> logging.Handler:
    """A file that rolls."""
    folder = Path(str(loaded.values["logDir"])).expanduser()
    files.make_folders(folder)

    class Rolling(RotatingFileHandler):
        def _open(self) -> TextIOWrapper:
            return open(self.baseFilename, "a", encoding="utf-8", opener=files.opener)

    handler = Rolling(
        folder / name,
        maxBytes=int(loaded.values["logFileBytes"]),
        backupCount=int(loaded.values["logFileCount"]),
    )
    handler.setFormatter(logging.Formatter(_FORMAT))
    return handler
