"""A save that fails is tried again."""

import threading

from mqserver.broker.state.saving import Saver


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
