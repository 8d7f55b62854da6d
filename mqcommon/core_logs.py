"""Passes the log lines of the compiled core to Python's logging.

The loggers are `mqstore.core`, `mqserver.core` and `mqclient.core`, for the part of the core that
writes the line. The core's threads never wait for Python: they put lines into a bounded queue.
"""

from __future__ import annotations

import logging
import os
import threading

from mqcommon import _core

__all__ = ["deliver", "forward"]

# Create the loggers at import: creating one later, in our thread, would change the table of loggers
# while another thread (of pytest, for example) may iterate over it.
_STORE, _SERVER, _CLIENT = (
    logging.getLogger(f"{package}.core") for package in ("mqstore", "mqserver", "mqclient")
)
_LOGGERS = {"mq_server": _SERVER, "mq_net": _SERVER, "mq_client": _CLIENT, "mq_bench": _CLIENT}
_WAIT_S = 3600.0

_lock = threading.Lock()
_forwarding_pid = 0


def forward() -> None:
    """Start to forward the core's lines; needed once per process, and again in a forked child."""
    global _forwarding_pid
    with _lock:
        if _forwarding_pid == os.getpid():
            return
        _forwarding_pid = os.getpid()
    threading.Thread(target=_run, name="mq-core-log", daemon=True).start()


def deliver() -> None:
    """Forward all waiting lines at once; a server calls this when it stops."""
    while (line := _core.next_log(0.0)) is not None:
        _log(*line)


def _run() -> None:
    while True:
        line = _core.next_log(_WAIT_S)
        if line is not None:
            _log(*line)


def _log(level: int, module: str, text: str) -> None:
    crate = module.partition("::")[0]
    _LOGGERS.get(crate, _STORE).log(level, "%s", text)
