"""Topics that sends created are announced and saved together, and no caller waits."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from mqserver import Standalone
from mqserver.broker.creations import Creations, Done
from mqserver.embedded.in_process import InProcessServers
from tests.waiting import DEADLINE


class Room:
    """An announcement that lasts until the test says so."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.told: list[str] = []
        self.fails = False
        self.creations = Creations(self._announce, self._saved)

    def _announce(self) -> None:
        self.told.append("announced")
        self.begun.release()
        assert self.go_on.acquire(timeout=DEADLINE)
        if self.fails:
            raise OSError("no NameServer")

    def _saved(self, done: Done) -> None:
        self.told.append("saved")
        done(None)

    def create(self, name: str) -> threading.Event:
        finished = threading.Event()

        def done(error: Exception | None) -> None:
            self.told.append(name)
            finished.set()

        self.creations.when_done(done)
        return finished


def test_those_who_come_during_an_announcement_share_the_next() -> None:
    room = Room()
    first = room.create("one")
    assert room.begun.acquire(timeout=DEADLINE)
    others = [room.create(name) for name in ("two", "three")]
    assert not first.is_set(), "nobody waited, and nobody goes on before the announcement"
    room.go_on.release()
    assert first.wait(DEADLINE)
    room.go_on.release()
    assert all(one.wait(DEADLINE) for one in others)
    assert room.told == ["saved", "announced", "one", "saved", "announced", "two", "three"]
    room.creations.stop()


def test_a_failed_announcement_and_a_stop_leave_nobody_behind() -> None:
    room = Room()
    room.fails = True
    first = room.create("one")
    assert room.begun.acquire(timeout=DEADLINE)
    second = room.create("two")
    room.go_on.release()
    room.go_on.release()
    room.creations.stop()
    assert first.is_set()
    assert second.wait(DEADLINE)


def test_topics_made_together_share_a_save_before_the_reply() -> None:
    with Standalone() as mq:
        assert isinstance(mq.servers, InProcessServers)
        assert mq.servers.server is not None
        saver = mq.servers.server.context.saver
        saves, save = [], saver._save

        def counted(name: str, text: bytes) -> None:
            saves.append(name)
            save(name, text)

        def make(client: int) -> None:
            for number in range(8):
                name = mq.topic(f"Topic-{client}-{number}")
                assert f'"{name}"' in (mq.data / "config/topics.json").read_text()

        saver._save = counted
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(make, range(16)))
        assert len(saves) < 16 * 8 / 2
