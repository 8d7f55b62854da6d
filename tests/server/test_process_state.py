"""A server in a process leaves the process as it found it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from mqcommon import files
from mqserver.embedded.standalone import Standalone
from mqserver.runtime.data_plane import SWITCH_INTERVAL_S


def state() -> tuple[object, ...]:
    umask = os.umask(0o077)
    os.umask(umask)
    return round(sys.getswitchinterval(), 6), threading.excepthook, umask, files.new_file_mode()


def alone(check: Callable[[], None]) -> None:
    """Run a check in a separate process, because other tests' servers may still run here."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(check).result(60)


def test_the_last_server_that_stops_restores_the_process() -> None:
    alone(the_last_server)


def the_last_server() -> None:
    before = state()
    with Standalone(settings={"storeFileMode": "0664"}):
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
        assert state()[2:] != before[2:]
        with Standalone():
            pass
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
    assert state() == before


def test_a_failed_start_restores_the_process() -> None:
    alone(a_failed_start)


def a_failed_start() -> None:
    before = state()
    with Standalone() as first:
        taken = first.broker_settings["listenPort"]
        second = Standalone(port=int(taken))
        with pytest.raises(OSError, match=taken):
            second.start()
    assert state() == before
