"""Imports that the open port does not wait for, but the first connection does.

Functions import what only some requests need. An import opens files, so it fails once clients have
taken all file descriptors: everything is imported before the first connection is accepted.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable
from importlib import import_module

__all__ = ["BROKER", "NAMESRV", "accept_when_imported"]

log = logging.getLogger(__name__)

_BOTH = (
    "datetime", "difflib", "encodings.idna", "encodings.latin_1", "ipaddress", "json", "linecache",
    "mqserver.guard", "mqstore.errors", "mqstore.message", "shutil", "socket", "zlib",
)  # fmt: skip
BROKER = (
    *_BOTH, "asyncio", "concurrent.futures.thread", "mqclient.wire.frame",
    "mqserver.broker.register", "mqserver.broker.slow_groups", "mqserver.broker.stats.log",
    "mqserver.broker.transactions.checking",
)  # fmt: skip
NAMESRV = _BOTH
_STANDING_IN = {"inspect": "signature", "traceback": "print_exception"}
"""Modules for which `cli` may have put something that imports them when it is used."""


def accept_when_imported(
    modules: Iterable[str], accept: Callable[[], None], load: Callable[[], None] | None = None
) -> None:
    """Import modules on a thread of its own, call `load`, then `accept` whatever happened."""

    def work() -> None:
        try:
            if load is not None:
                load()
            for name in modules:
                import_module(name)
            for name, attribute in _STANDING_IN.items():
                getattr(sys.modules.get(name) or import_module(name), attribute)
        except Exception:
            log.exception("a part of the server cannot be loaded; requests that need it will fail")
        finally:
            accept()

    threading.Thread(target=work, name="warm-up", daemon=True).start()
