"""Senders that note every answer, and the check of what a slave has."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from contextlib import suppress

from mqcommon.message import decode_messages
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from tests.e2e.replication.pair import TOPIC
from tests.interop.contents import Server
from tests.waiting import until

SEND_OK = 0
CALL_S = 60.0
PAUSE_S = 0.01
"""Of a sender whose message was not acknowledged."""
LARGE = 41
"""One of this many messages is larger than a page."""


def send(queue_id: int, body: bytes) -> Frame:
    fields = {
        "a": "P", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0", "g": "1",
        "h": "0", "m": "false",
    }  # fmt: skip
    return Frame(310, fields, body)


class Load:
    """Senders, each with one queue and one message under way; used in a `with` block.

    acknowledged: by queue and queue offset, the body of each message with status 0. answers: number
    of answers by code; None counts the sends that got none.
    """

    def __init__(self, address: str, senders: int) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.answers: Counter[int | None] = Counter()
        self._threads = [
            threading.Thread(target=self._run, args=(number,)) for number in range(senders)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(CALL_S)

    def _run(self, queue_id: int) -> None:
        numbers = itertools.count()
        while not self._is_over.is_set():
            with suppress(OSError):
                self._send(queue_id, numbers)
            self._is_over.wait(PAUSE_S)

    def _send(self, queue_id: int, numbers: itertools.count[int]) -> None:
        """Send until the connection ends; no body is sent twice."""
        with Probe(self._address, timeout=CALL_S) as probe:
            while not self._is_over.is_set():
                number = next(numbers)
                filling = b"." * (5_000 if number % LARGE == 0 else 100)
                body = b"%d %d " % (queue_id, number) + filling
                code, offset = None, -1
                try:
                    reply = probe.call(send(queue_id, body))
                    code, offset = reply.code, int(reply.fields.get("queueOffset", -1))
                finally:
                    self._note(code, (queue_id, offset), body)
                if code != SEND_OK:
                    self._is_over.wait(PAUSE_S)

    def _note(self, code: int | None, place: tuple[int, int], body: bytes) -> None:
        with self._lock:
            self.answers[code] += 1
            if code == SEND_OK:
                self.acknowledged[place] = body

    def count(self, code: int | None = SEND_OK) -> int:
        """Answers so far with this code."""
        with self._lock:
            return self.answers[code]

    def await_more(self, more: int = 50, code: int | None = SEND_OK) -> None:
        """Wait for more answers with this code."""
        goal = self.count(code) + more
        assert until(lambda: self.count(code) >= goal), self.answers

    def check(self, address: str) -> None:
        """Compare with the queues of a broker: each acknowledged message is at its offset, each
        queue has its messages in the order of their sends, and none twice."""
        found: dict[tuple[int, int], bytes] = {}
        with Server(address) as server:
            assert until(server.is_dispatched)
            for queue_id in range(len(self._threads)):
                for offset, record in server.queue((TOPIC, queue_id)).items():
                    found[queue_id, offset] = decode_messages(record)[0].body
        lost = [place for place, body in self.acknowledged.items() if found.get(place) != body]
        assert not lost, f"{len(lost)} of {len(self.acknowledged)} are not there: {lost[:5]}"
        for queue_id in range(len(self._threads)):
            own = sorted(place for place in found if place[0] == queue_id)
            numbers = [int(found[place].split()[1]) for place in own]
            assert numbers == sorted(set(numbers)), f"queue {queue_id} is not in order"
            assert [offset for _, offset in own] == list(range(len(own)))
