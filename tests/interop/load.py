"""Senders that load a broker until it dies, and record the acknowledged messages."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqstore import encode_properties
from tests.interop.engine_writer import item

QUEUES = 4
BATCH = 5


@dataclass(frozen=True)
class Acknowledged:
    """A message that was stored, as the broker said. delayed: it waits in a schedule queue."""

    queue_id: int
    queue_offset: int
    physical_offset: int
    key: str
    body: bytes


class Load:
    """`threads` connections that each send one message after the other."""

    def __init__(self, address: str, topic: str, threads: int = 3) -> None:
        self.topic = topic
        self.acknowledged: list[Acknowledged] = []
        self.refused: list[str] = []
        self._address = address
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(i,)) for i in range(threads)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def await_count(self, count: int, timeout: float = 120.0) -> None:
        """Wait for `count` acknowledgements; the senders keep sending."""
        with self._changed:
            came = self._changed.wait_for(
                lambda: len(self.acknowledged) >= count or self.refused, timeout
            )
        assert came and not self.refused, (len(self.acknowledged), self.refused)

    def stop(self) -> None:
        """Let each sender end after its present message, or notice that the broker is gone."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(90)
        assert not self.refused, self.refused

    def _send(self, sender: int) -> None:
        picks = random.Random(sender)
        try:
            with Probe(self._address, timeout=60.0) as probe:
                number = 0
                while not self._stopping.is_set():
                    self._send_one(probe, f"{sender}-{number}", picks)
                    number += 1
        except OSError:
            return  # the broker was killed

    def _send_one(self, probe: Probe, key: str, picks: random.Random) -> None:
        queue_id = picks.randrange(QUEUES)
        if picks.random() < 0.1:
            bodies = [f"{key}-{i}" for i in range(BATCH)]
            request = self._request(320, queue_id, b"".join(map(item, bodies)), "")
            keys = bodies
        else:
            body = f"{key} " + "x" * picks.randrange(3000)
            text = encode_properties({"KEYS": key, "TAGS": picks.choice(["TagA", "TagB"])})
            request = self._request(310, queue_id, body.encode(), text.decode())
            bodies, keys = [body], [key]
        reply = probe.call(request)
        if reply.code != 0:
            self._note([], f"{reply.code} {reply.remark}")
            return
        first = int(reply.fields["queueOffset"])
        places = [int(one[16:], 16) for one in reply.fields["msgId"].split(",")]
        self._note([
            Acknowledged(queue_id, first + i, places[i], keys[i], body.encode())
            for i, body in enumerate(bodies)
        ])  # fmt: skip

    def _request(self, code: int, queue_id: int, body: bytes, properties: str) -> Frame:
        letters = {"a": "load", "b": self.topic, "c": "TBW102", "d": str(QUEUES)}
        letters |= {"e": str(queue_id), "f": "0", "g": "1700000000000", "h": "0"}
        letters |= {"i": properties, "m": "true" if code == 320 else "false"}
        return Frame(code, letters, body)

    def _note(self, messages: list[Acknowledged], refused: str | None = None) -> None:
        with self._changed:
            self.acknowledged += messages
            self.refused += [refused] if refused else []
            self._changed.notify_all()
