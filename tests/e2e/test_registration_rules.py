"""The registrations that a broker sends to its NameServers, and their timing."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import ask
from mqserver.embedded.standalone import Standalone
from mqserver.embedded.testing import free_port
from mqserver.namesrv.routes import Registration, Routes
from mqserver.registration import link
from tests.e2e.test_registration import namesrv, route
from tests.waiting import until

HANG_S = 6
"""Longest wait for a hanging NameServer, much longer than a start on a busy machine."""
TOPIC = {
    "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
}  # fmt: skip


def create(broker: str, topic: str) -> None:
    assert ask(broker, Frame(17, {"topic": topic, **TOPIC})).code == 0


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Registration]:
    """Every registration that a NameServer in this process receives."""
    found: list[Registration] = []
    really = Routes.register

    def registered(self: Routes, new: Registration) -> object:
        found.append(new)
        return really(self, new)

    monkeypatch.setattr(Routes, "register", registered)
    return found


def test_a_created_topic_is_sent_alone_with_a_higher_version(taken: list[Registration]) -> None:
    with Standalone() as mq:
        whole = taken[-1]
        assert {"TBW102", "SELF_TEST_TOPIC", "DefaultCluster"} <= whole.topics.keys()
        create(mq.broker_address, "One")
        create(mq.broker_address, "Two")
        one, two = taken[-2:]
        assert (one.topics.keys(), two.topics.keys()) == ({"One"}, {"Two"})
        assert one.version.counter == whole.version.counter + 1
        assert route(mq.namesrv, "One") and route(mq.namesrv, "Two")


def test_a_topic_made_by_a_send_is_registered_once_and_alone(taken: list[Registration]) -> None:
    with Standalone() as mq:
        begun = len(taken)
        for name in ("One", "Two"):
            fields = {"a": "p", "b": name, "c": "TBW102", "d": "4", "e": "0", "f": "0"}
            assert (
                ask(mq.broker_address, Frame(310, {**fields, "g": "1", "h": "0"}, b"x")).code == 0
            )
            assert taken[-1].topics.keys() == {name}, "before the answer"
        create(mq.broker_address, "Three")
        assert [set(one.topics) for one in taken[begun:]] == [{"One"}, {"Two"}, {"Three"}]


def test_without_force_an_unchanged_table_is_only_asked_about(
    tmp_path: Path, taken: list[Registration], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PERIOD_MIN_S", 0.05)
    asked: list[bool] = []

    class Counting(Routes):
        def query_version(self, address: str, version: object, source: str) -> object:
            answer = super().query_version(address, version, source)  # type: ignore[arg-type]
            asked.append(answer[0])
            return answer

    monkeypatch.setattr("mqserver.namesrv.server.Routes", Counting)
    settings = {"registerNameServerPeriod": "1", "forceRegister": "false"}
    with (
        namesrv(tmp_path) as server,
        Standalone(settings={**settings, "namesrvAddr": server.address}),
    ):
        assert until(lambda: len(asked) >= 3)
        assert not any(asked)
        assert len(taken) == 1, "the first is forced"


def timed(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def test_one_that_hangs_delays_nobody_after_the_first_time(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging, namesrv(tmp_path) as one:
        silent = f"127.0.0.1:{hanging.getsockname()[1]}"
        settings = {
            "namesrvAddr": f"{silent};{one.address}",
            "registerBrokerTimeoutMills": str(1000 * HANG_S),
        }
        mq = Standalone(settings=settings)
        took = timed(mq.start)
        assert HANG_S <= took < 2 * HANG_S, "it is waited for once, as long as configured"
        try:
            for topic in ("A", "B", "C"):
                assert timed(lambda topic=topic: create(mq.broker_address, topic)) < HANG_S
                assert route(one.address, topic)
        finally:
            assert timed(mq.stop) < HANG_S
        assert route(one.address, "A") == b"", "it unregistered"


def test_one_that_was_away_gets_all_it_missed(tmp_path: Path, taken: list[Registration]) -> None:
    with namesrv(tmp_path / "1") as one:
        with namesrv(tmp_path / "2", port := free_port()) as two:
            mq = Standalone(settings={"namesrvAddr": f"{one.address};{two.address}"}).start()
            address = two.address
        try:
            create(mq.broker_address, "Missed")
            with namesrv(tmp_path / "2", port) as again:
                assert again.address == address
                create(mq.broker_address, "Next")
                assert until(lambda: bool(route(address, "Missed")))
                assert route(address, "Next") and route(address, "TBW102")
        finally:
            mq.stop()


def test_a_new_one_gets_the_whole_table_first(tmp_path: Path, taken: list[Registration]) -> None:
    with (
        namesrv(tmp_path / "1") as one,
        namesrv(tmp_path / "2") as two,
        Standalone(settings={"namesrvAddr": one.address}) as mq,
    ):
        both = f"namesrvAddr={one.address};{two.address}".encode()
        assert ask(mq.broker_address, Frame(25, body=both)).code == 0
        create(mq.broker_address, "Now")  # perhaps before the broker uses the new list
        assert route(two.address, "Now") and route(two.address, "TBW102")
