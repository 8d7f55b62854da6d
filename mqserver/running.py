"""What all commands share: one clear line for an error, the log, signals, the lines of a boot."""

from __future__ import annotations

import errno
import gc
import logging
import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from mqserver.config.loaded import Loaded, SettingsError
from mqserver.logs import set_up
from mqstore.errors import StoreError
from mqstore.shortage import shortage

FAILED = 1
USAGE_ERROR = 2
POISONED = 3
SECOND_SIGNAL = 130
BURST_S = 0.3
"""Signals closer together than this were meant as one."""


def fail(what: str, code: int = FAILED) -> NoReturn:
    """End the process with one clear line."""
    sys.stderr.write(f"mqserver: {what}\n")  # in one piece: log lines may come meanwhile
    sys.stderr.flush()
    raise SystemExit(code)


def say(line: str) -> None:
    """Print a line at once and in one piece, whichever thread calls."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def allow_open_files() -> None:
    """Raise the limit of open files as far as it may be, as a JVM does: each connection is one.

    What starts services often leaves it at 1,024, for programs that use select().
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextmanager
def clear_errors(loaded: Loaded | None) -> Iterator[None]:
    """Turn what may go wrong at start into one line and an exit code.

    `cli.main` has a line for a lack of memory or threads.
    """
    try:
        yield
    except SettingsError as error:
        fail(str(error), USAGE_ERROR)
    except OSError as error:
        if shortage(error):
            raise
        fail(_words(error, loaded))
    except Exception as error:
        if not isinstance(error, StoreError) or shortage(error):
            raise
        fail(str(error))


def _words(error: OSError, loaded: Loaded | None) -> str:
    """What an operating system's error means here."""
    text = error.strerror or str(error)
    if error.filename:
        text = f"{error.filename}: {text}"
    if error.errno == errno.EADDRINUSE:
        port = f" {loaded.values['listenPort']}" if loaded else ""
        return f"port{port} is in use: {text}; stop the other server or set another listenPort"
    return text


def on_signals() -> threading.Event:
    """An event set by SIGTERM or Ctrl-C; a second signal ends the process at once (130).

    Signals of one burst count as one: `timeout`, for instance, signals the process and its group.
    """
    stopped = threading.Event()
    first = [0.0]

    def handle(_number: int, _frame: FrameType | None) -> None:
        if not stopped.is_set():
            first[0] = time.monotonic()
            stopped.set()
        elif time.monotonic() - first[0] > BURST_S:
            os._exit(SECOND_SIGNAL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closed terminal ends no server
    return stopped


def print_settings(loaded: Loaded, show: str) -> None:
    """Print every setting, or the important ones."""
    for line in loaded.lines(important_only=show == "important"):
        say(line)


def set_up_log(loaded: Loaded, server: str) -> None:
    """Log as the settings say, and warn of what the operator should know of them."""
    with clear_errors(loaded):
        set_up(loaded, server)
    warn_of(loaded)


def warn_of(loaded: Loaded) -> None:
    """Log what the operator should know of the settings."""
    for warning in loaded.warnings:
        warn(warning)


def announce(line: str) -> None:
    """Say a line, and keep it in the log file if there is one."""
    say(line)
    logging.getLogger("mqserver").info("%s", line)


def warn(text: str) -> None:
    """Log to standard error and the file; the log is set up by then."""
    logging.getLogger("mqserver").warning("%s", text)


def announce_namesrv() -> None:
    """RocketMQ's boot line of a NameServer."""
    announce("The Name Server boot success. serializeType=JSON")


def announce_broker(
    name: str, address: str, namesrv: str, origin: str, root: str, shown_root: str | None = None
) -> None:
    """RocketMQ's boot line of a broker, then what an operator asks next."""
    asked = f" and name server is {namesrv}" if namesrv else ""
    announce(f"The broker[{name}, {address}] boot success. serializeType=JSON{asked}")
    announce(f"clients will be told {address} (from: {origin})")
    free = shutil.disk_usage(root).free / (1 << 30)
    announce(f"store: {shown_root or root} ({free:.1f} GiB free)")


def keep_what_is_there() -> None:
    """Have the garbage collector pass over the objects of the start, which live for good."""
    gc.freeze()
