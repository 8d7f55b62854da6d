"""Background work continues after a failure."""

from __future__ import annotations

import threading

import pytest

from mqserver.runtime.watch import Watch


def test_a_look_that_fails_is_logged_and_comes_again(caplog: pytest.LogCaptureFixture) -> None:
    again = threading.Event()
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) > 1:
            again.set()
        raise OverflowError("too big")

    watch = Watch("watch-under-test", look, 0.01)
    watch.start()
    assert again.wait(30)
    watch.stop()
    assert "watch-under-test failed; it will try again" in caplog.text
