"""A master that returns asks for the offsets of its slaves, and can be stopped meanwhile."""

from __future__ import annotations

import socket
import threading

import pytest

from mqserver.broker.replication import returning
from mqserver.broker.replication.returning import Returning
from tests.broker.replication.test_offsets import Offsets
from tests.broker.test_state import Room


def test_a_stop_does_not_wait_for_a_mute_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("TIMEOUT_S", "TOGETHER_S"):
        monkeypatch.setattr(returning, limit, 600.0)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        mute.settimeout(60)
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        asked = Returning(Offsets(), Room().settings, [address])  # type: ignore[arg-type]
        asked.start()
        connection, _ = mute.accept()
        with connection:
            connection.settimeout(60)
            assert connection.recv(1), "it has asked"
            stopping = threading.Thread(target=asked.stop, daemon=True)
            stopping.start()
            stopping.join(timeout=60)
            assert not stopping.is_alive()


def test_a_stop_before_the_first_question_asks_nothing() -> None:
    asked = Returning(Offsets(), Room().settings, ["127.0.0.1:1"])  # type: ignore[arg-type]
    with asked._lock:
        asked._is_stopping = True
    asked.start()
    asked.stop()
