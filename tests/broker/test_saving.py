"""A save that fails is tried again."""

import threading
import time

import pytest

from mqserver.broker.state.saving import DELAY_S, Saver
from mqserver.runtime.services import Services
from tests.waiting import DEADLINE, until


def test_a_failed_save_is_tried_again_without_another_change() -> None:
    written = threading.Event()
    tries = 0

    def save(_name: str, _text: bytes) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OSError("no space left")
        written.set()

    saver = Saver(save)
    saver.add("topics.json", lambda: b"x")
    saver.start()
    saver.mark("topics.json")
    assert written.wait(30.0)
    saver.stop()
    assert tries == 3


def test_a_failed_save_with_a_waiting_caller_is_retried() -> None:
    written = threading.Event()
    is_full = True

    def save(_name: str, _text: bytes) -> None:
        if is_full:
            raise OSError("no space left")
        written.set()

    services = Services()
    saver = Saver(save, services)
    saver.add("topics.json", lambda: b"x")
    saver.start()
    with pytest.raises(OSError):
        saver.save_now("topics.json")
    assert "topics.json cannot be saved" in (services.unready() or "")
    is_full = False
    assert written.wait(30.0)
    assert until(lambda: services.unready() is None)
    saver.stop()


def test_a_marked_file_is_not_written_with_awaited_files() -> None:
    saves: list[str] = []
    saver = Saver(lambda name, _: saves.append(name))
    saver.add("marked", bytes)
    saver.add("waited", bytes)
    saver.start()
    began = time.monotonic()
    for _ in range(200):
        saved = threading.Event()
        saver.mark("marked")
        saver.when_saved("waited", lambda _, saved=saved: saved.set())
        assert saved.wait(DEADLINE)
    periods = (time.monotonic() - began) / DELAY_S
    assert saves.count("waited") == 200
    assert until(lambda: "marked" in saves)
    assert saves.count("marked") <= periods + 2
    saver.stop()
    assert saves[-1] == "marked"
