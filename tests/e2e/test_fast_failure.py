"""Requests that waited for too long: by family, as the broker's settings say."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest

from mqcommon.wire.frame import Frame, encode
from mqserver.config.broker_table import BROKER
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqserver.runtime.listener import Listener
from mqserver.runtime.processor_api import Request, Response
from tests.inside import broker_of

DEADLINE_S = 60.0
LIMITED = {
    "send": (36, "waitTimeMillsInSendQueue"),
    "pull": (11, "waitTimeMillsInPullQueue"),
    "heartbeat": (34, "waitTimeMillsInHeartbeatQueue"),
    "endTransaction": (37, "waitTimeMillsInTransactionQueue"),
}
"""A code of each family that is cleaned, in a form that Python answers, and its setting."""
PATIENT = {"reply": 324, "client": 46, "consumer": 38, "admin": 29}
"""A code of each family without a time limit. `query` has two threads and a limit of its own."""
HOUR_MS = 3_600_000
LONGER_MS = 60
"""Longer than several checks of the queues, which run every 10 ms."""
SERVED = 77
WAITED = re.compile(
    r"\[TIMEOUT_CLEAN_QUEUE\]broker busy, start flow control for a while, "
    r"period in queue: (\d+)ms, size of queue: (\d+)"
)


class Families:
    """A broker whose families have one thread each, which stays inside a request."""

    def __init__(self, mq: Standalone) -> None:
        listener = broker_of(mq)._listener
        assert listener is not None
        self.listener: Listener = listener
        self.address = mq.broker_address
        self.may_go = threading.Event()
        self.entered = threading.Semaphore(0)
        self.probes: list[Probe] = []

    def _stay(self, request: Request) -> Response:
        self.entered.release()
        assert self.may_go.wait(DEADLINE_S)
        return Response(SERVED)

    def fill(self, family: str, code: int) -> Probe:
        """Occupy the thread with one request and let a second one wait on the same connection."""
        self.listener._processors[code] = self._stay
        probe = Probe(self.address, timeout=DEADLINE_S)
        self.probes.append(probe)
        probe.write(encode(Frame(code, opaque=1)))
        assert self.entered.acquire(timeout=DEADLINE_S)
        probe.write(encode(Frame(code, opaque=2)))
        self.wait(f"waiting.{family}", 1)
        return probe

    def wait(self, counter: str, least: int) -> None:
        """Wait until the counter reaches `least`."""
        pause = threading.Event()
        for _ in range(int(DEADLINE_S / 0.005)):
            if self.listener.counters()[counter] >= least:
                return
            pause.wait(0.005)
        raise AssertionError(self.listener.counters())

    def waiting(self) -> set[str]:
        """Families in which requests wait."""
        counted = self.listener.counters()
        return {name for name in (*LIMITED, *PATIENT) if counted[f"waiting.{name}"]}

    def close(self) -> None:
        self.may_go.set()
        for probe in self.probes:
            probe.close()


def change(probe: Probe, **settings: object) -> None:
    """UPDATE_BROKER_CONFIG."""
    text = "".join(f"{key}={value}\n" for key, value in settings.items())
    assert probe.call(Frame(25, body=text.encode())).code == 0


@pytest.fixture
def families(plane: str) -> Iterator[Families]:
    settings = {key: str(HOUR_MS) for _, key in LIMITED.values()}
    settings |= {"dataPlane": plane, "handoffThreads": "1", "brokerFastFailureEnable": "true"}
    with Standalone(settings=settings) as mq:
        started = Families(mq)
        yield started
        started.close()


def is_refused(probe: Probe, least_ms: int) -> None:
    """The waiting request gets code 2, with its waiting time and the requests after it."""
    reply = probe.read()
    assert (reply.code, reply.opaque) == (2, 2)
    found = WAITED.fullmatch(reply.remark or "")
    assert found, reply.remark
    assert int(found[1]) >= least_ms
    assert found[2] == "0"


def test_each_family_has_its_own_limit_online(families: Families) -> None:
    filled = {family: families.fill(family, code) for family, (code, _) in LIMITED.items()}
    left = set(filled)
    with Probe(families.address, timeout=DEADLINE_S) as admin:
        for family, (_, setting) in LIMITED.items():
            families.wait(f"head_wait_ms.{family}", LONGER_MS)
            assert families.waiting() == left, "nobody waits for as long as the limits"
            change(admin, **{setting: LONGER_MS})
            is_refused(filled[family], LONGER_MS)
            left.remove(family)
            assert families.waiting() == left, "the others have limits of their own"


def test_the_other_families_wait_for_as_long_as_it_takes(families: Families) -> None:
    with Probe(families.address, timeout=DEADLINE_S) as admin:
        change(admin, **{setting: 1 for _, setting in LIMITED.values()})
    filled = {family: families.fill(family, code) for family, code in PATIENT.items()}
    for family in filled:
        families.wait(f"head_wait_ms.{family}", LONGER_MS)
    assert families.waiting() == set(PATIENT)
    families.may_go.set()
    for probe in filled.values():
        replies = [probe.read(), probe.read()]
        assert [(reply.code, reply.opaque) for reply in replies] == [(SERVED, 1), (SERVED, 2)]


def test_fast_failure_is_switched_off_and_on(families: Families) -> None:
    code, setting = LIMITED["send"]
    with Probe(families.address, timeout=DEADLINE_S) as admin:
        change(admin, brokerFastFailureEnable="false", **{setting: 1})
        probe = families.fill("send", code)
        families.wait("head_wait_ms.send", LONGER_MS)
        assert families.waiting() == {"send"}
        change(admin, brokerFastFailureEnable="true")
        is_refused(probe, LONGER_MS)


def test_the_limits_unless_set() -> None:
    limits = {family: BROKER[setting].default for family, (_, setting) in LIMITED.items()}
    assert limits == {"send": 200, "pull": 5000, "heartbeat": 31000, "endTransaction": 3000}
    assert BROKER["brokerFastFailureEnable"].default is True
    assert all(BROKER[setting].online for _, setting in LIMITED.values())
