"""Shared by the server commands: what an error means, the log, signals, the boot lines."""

from __future__ import annotations

import gc
import logging
import resource
import shutil
import sys
from contextlib import suppress
from typing import NoReturn

from mqcommon.cli.error_line import end
from mqcommon.cli.exit_codes import FAILED, POISONED, USAGE
from mqcommon.cli.running import Failure, failure_of
from mqcommon.signals import SignalSafeEvent
from mqserver.config.loaded import Loaded, SettingsError
from mqserver.runtime.logs import ANNOUNCED, set_up
from mqserver.runtime.service_manager import READY, STOPPING, notify
from mqstore.errors import StoreError


def fail(what: str, code: int = FAILED) -> NoReturn:
    """End the process with one line on standard error."""
    end("mqserver", what, code)


def fail_poisoned() -> NoReturn:
    """End the process after a stop that could not close the store whole."""
    fail("a write or fsync of the store failed: see the log for the disk's error", POISONED)


def say(line: str) -> None:
    """Print a line at once and in one piece, from any thread."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def allow_open_files() -> None:
    """Raise the soft limit on open files to the hard limit, as a JVM does.

    Each connection needs a descriptor, and service managers often start a process with 1,024.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems refuse their own hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def judge(error: Exception) -> Failure | None:
    """What an error of a command means; None for a defect."""
    if isinstance(error, SettingsError):
        return Failure(str(error), USAGE)
    failure = Failure(str(error)) if isinstance(error, StoreError) else failure_of(error)
    log = logging.getLogger("mqserver")
    if failure is None and log.hasHandlers():  # a server that ran leaves the traceback in its log
        log.critical("the server ends because of a defect", exc_info=error)
    return failure


def print_settings(loaded: Loaded, show: str) -> None:
    """Print every setting, or the important ones."""
    for line in loaded.lines(important_only=show == "important"):
        say(line)


def set_up_log(loaded: Loaded, server: str) -> None:
    """Set up the log and write the warnings about the settings to it."""
    set_up(loaded, server)
    warn_of(loaded)


def warn_of(loaded: Loaded) -> None:
    """Log the warnings about the settings."""
    for warning in loaded.warnings:
        warn(warning)


def announce(line: str) -> None:
    """Print a line, and write it to the log file if there is one."""
    say(line)
    logging.getLogger(ANNOUNCED).info("%s", line)


def warn(text: str) -> None:
    """Log to standard error and the file; the log is set up by then."""
    logging.getLogger("mqserver").warning("%s", text)


def announce_namesrv() -> None:
    """RocketMQ's boot line of a NameServer."""
    announce("The Name Server boot success. serializeType=JSON")


def announce_broker(
    name: str, address: str, namesrv: str, origin: str, root: str, shown_root: str | None = None
) -> None:
    """RocketMQ's boot line of a broker, then the advertised address and the free disk space."""
    asked = f" and name server is {namesrv}" if namesrv else ""
    announce(f"The broker[{name}, {address}] boot success. serializeType=JSON{asked}")
    announce(f"clients will be told {address} (from: {origin})")
    free = shutil.disk_usage(root).free / (1 << 30)
    announce(f"store: {shown_root or root} ({free:.1f} GiB free)")


def serve_until(stopped: SignalSafeEvent) -> None:
    """Report to the service manager that the server is ready, wait for a signal, report the stop.

    stopped: set by SIGTERM or Ctrl-C.
    """
    notify(READY)
    stopped.wait()
    notify(STOPPING)


def keep_what_is_there() -> None:
    """Make the garbage collector skip the objects of the start, which live until the end.

    It is off during the start: see `cli.py`.
    """
    gc.freeze()
    gc.enable()
