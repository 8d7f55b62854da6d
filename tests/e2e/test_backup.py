"""A store is copied as docs/operations/backup.md says, while its broker gets messages."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import mqstore
from mqclient import Message, Producer
from mqserver.embedded.standalone import Standalone
from tests.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "backup.md"
SMALL = {"mappedFileSizeCommitLog": "65536"}
FILES_BEFORE = 3
"""Files of the log when the copy begins."""


def commands() -> str:
    """The block of the page that copies the store of a running broker."""
    (block,) = re.findall(r"```sh\n(mkdir -p running.*?)```", PAGE.read_text(), re.DOTALL)
    return str(block)


def has_grown(store: Path) -> bool:
    """Whether the log has rolled, and queues and index have files."""
    derived = [store / "consumequeue" / "Orders", store / "index"]
    files = len(list((store / "commitlog").iterdir()))
    return files > FILES_BEFORE and all(path.is_dir() for path in derived)


class Load:
    """Sends messages until it is stopped; `acknowledged` has their keys."""

    def __init__(self, namesrv: str) -> None:
        self.acknowledged: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send, args=(namesrv,))
        self._thread.start()

    def _send(self, namesrv: str) -> None:
        with Producer(namesrv) as producer:
            while not self._stopping.is_set():
                first = len(self.acknowledged)
                keys = [f"order-{first + number}" for number in range(50)]
                sent = [producer.send_async(Message("Orders", b"x" * 500, keys=k)) for k in keys]
                for waiting in sent:
                    waiting.result().raise_for_status()
                self.acknowledged += keys

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


def test_a_copy_has_what_was_acknowledged_before_it(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Standalone(store, settings=SMALL) as mq:
        load = Load(mq.namesrv)
        try:
            assert until(lambda: has_grown(store))
            before = set(load.acknowledged)
            run = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", commands()],
                cwd=tmp_path,
                env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
                capture_output=True,
                text=True,
                timeout=300,
            )
        finally:
            load.stop()
    assert run.returncode == 0, run.stdout + run.stderr
    with Standalone(tmp_path / "running", settings=SMALL):
        pass  # it opens the copy, repairs what a crash would leave, and closes it
    reader = mqstore.open(tmp_path / "running")
    assert not reader.verify().damaged
    assert before <= {message.keys[0] for message in reader.records(topic="Orders")}
    assert len(list(reader.records(topic="Orders"))) == sum(
        queue.max_offset for queue in reader.queues() if queue.topic == "Orders"
    )
