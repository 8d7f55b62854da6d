"""A link sends one registration at a time to its NameServer, also after failures and changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mqcommon.wire.bodies.topics import RegisterBrokerBody, TopicConfig
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame
from mqserver.broker.state.topics import Topics
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.config.settings import BrokerSettings, broker_settings
from mqserver.registration import link as module
from mqserver.registration import registrar as register
from mqserver.registration.link import Link
from mqserver.registration.registrar import Identity, Registrar
from mqserver.runtime.data_plane import Tables

ADDRESS = "127.0.0.1:9876"
ME = Identity("C", "b", 0, "127.0.0.1:1", "127.0.0.1:2")


class FakeNamesrv:
    """Replaces the transport. Each call waits in `asked` until the test answers it."""

    def __init__(self, **_: object) -> None:
        self.asked: asyncio.Queue[tuple[Frame, asyncio.Future[Frame]]] = asyncio.Queue()
        self.under_way = 0
        self.under_way_at_the_end: int | None = None
        self.lost: Callable[[str], None] = lambda _: None

    def on_close(self, callback: Callable[[str], None]) -> None:
        self.lost = callback

    async def call(self, address: str, request: Frame, timeout: float) -> Frame:
        if request.code == RequestCode.UNREGISTER_BROKER:
            self.under_way_at_the_end = self.under_way
            return Frame(0)
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        await self.asked.put((request, answer))
        self.under_way += 1
        assert self.under_way == 1, "one registration at a time"
        try:
            return await answer
        finally:
            self.under_way -= 1

    async def aclose(self) -> None:
        pass

    async def next(self) -> tuple[set[str], int, asyncio.Future[Frame]]:
        """The next registration: topics, version, and the future of its answer."""
        request, answer = await asyncio.wait_for(self.asked.get(), 30)
        wrapper = RegisterBrokerBody.from_json(request.body).topic_config_serialize_wrapper
        return set(wrapper.topic_config_table), wrapper.data_version.counter, answer


class Bench:
    """A registrar on the test's own loop, with one NameServer that the test plays."""

    def __init__(self, settings: BrokerSettings, registrar: Registrar, topics: Topics) -> None:
        self.settings, self.registrar, self.topics = settings, registrar, topics
        self.namesrv = FakeNamesrv()

    @property
    def link(self) -> Link:
        return self.registrar._links[ADDRESS]

    def create(self, topic: str) -> None:
        self.topics.put(TopicConfig(topic))

    async def settle(self) -> None:
        """Play a NameServer that takes the whole table."""
        topics, _, answer = await self.namesrv.next()
        assert topics == set(self.topics.wrapper().topic_config_table)
        answer.set_result(Frame(0))
        await asyncio.wait([self.link.first])


@asynccontextmanager
async def played(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """The registrar runs beside the test, and stops with it."""
    flags = pairs({"namesrvAddr": ADDRESS}, "test")
    settings = broker_settings(load(BROKER, flags=flags))
    topics = Topics({"Old": TopicConfig("Old")}, Tables(), lambda: 0, lambda _: None, lambda: None)
    bench = Bench(settings, Registrar(ME, topics, lambda: settings, lambda _: None), topics)
    monkeypatch.setattr(register, "Transport", lambda **_: bench.namesrv)
    main = asyncio.create_task(bench.registrar._main())
    try:
        yield bench
    finally:
        main.cancel()
        await asyncio.wait([main])


async def test_what_is_created_meanwhile_goes_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(register, "CREATED_WAIT_S", 30.0)
    async with played(monkeypatch) as bench:
        await bench.settle()
        bench.create("A")
        first = asyncio.create_task(bench.registrar._created())
        topics, version, answer = await bench.namesrv.next()
        assert (topics, version) == ({"A"}, 1)
        rest = []
        for name in ("B", "C"):
            bench.create(name)
            rest.append(asyncio.create_task(bench.registrar._created()))
            await asyncio.sleep(0)
        answer.set_result(Frame(0))
        topics, version, answer = await bench.namesrv.next()
        await asyncio.wait_for(first, 10)  # it does not wait for other registrations
        assert (topics, version) == ({"B", "C"}, 3)
        assert not any(task.done() for task in rest)
        answer.set_result(Frame(0))
        await asyncio.gather(*rest)


async def test_topics_created_during_a_full_registration_are_sent_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with played(monkeypatch) as bench:
        topics, _, answer = await bench.namesrv.next()
        assert topics == {"Old"}
        bench.create("A")
        bench.topics.remove("Old")
        told = asyncio.create_task(bench.registrar._changed())
        await asyncio.sleep(0)
        answer.set_result(Frame(0))
        topics, version, answer = await bench.namesrv.next()
        assert (topics, version) == ({"A"}, 2), "a topic that is gone is not made again"
        answer.set_result(Frame(0))
        await told


@pytest.mark.parametrize("failure", ["error", "code"])
async def test_after_a_failure_all_is_told(failure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A NameServer that refused a row would ignore it if it came again with the same version."""
    monkeypatch.setattr(module, "RETRY_S", 0.001)
    async with played(monkeypatch) as bench:
        await bench.settle()
        bench.create("A")
        told = asyncio.create_task(bench.registrar._created())
        topics, _, answer = await bench.namesrv.next()
        bench.create("B")
        if failure == "error":
            answer.set_exception(ConnectionError("gone"))
        else:
            answer.set_result(Frame(2, remark="busy"))
        await told
        assert bench.registrar.away.keys() == {ADDRESS}
        topics, _, answer = await bench.namesrv.next()
        assert topics == {"Old", "A", "B"}
        answer.set_result(Frame(0))
        bench.create("C")
        turn = bench.link.register_soon()
        topics, _, answer = await bench.namesrv.next()
        assert topics == {"C"}
        answer.set_result(Frame(0))
        await asyncio.wait([turn])
        assert not bench.registrar.away


async def test_a_connection_that_is_lost_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOST_S", 0.001)
    async with played(monkeypatch) as bench:
        await bench.settle()
        bench.namesrv.lost(ADDRESS)
        await bench.settle()


async def test_one_that_is_late_is_not_waited_for_until_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(register, "CREATED_WAIT_S", 0.01)
    async with played(monkeypatch) as bench:
        await bench.settle()
        bench.create("A")
        await bench.registrar._created()  # for CREATED_WAIT_S, and no longer
        _, _, answer = await bench.namesrv.next()
        assert bench.link.is_late
        monkeypatch.setattr(register, "CREATED_WAIT_S", 3600.0)
        bench.create("B")
        await asyncio.wait_for(bench.registrar._created(), 30)
        answer.set_result(Frame(0))
        topics, _, answer = await bench.namesrv.next()
        assert topics == {"B"}, "it is told what it missed"
        assert bench.link.is_prompt
        answer.set_result(Frame(0))


async def test_a_period_after_parts_brings_a_version_that_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with played(monkeypatch) as bench:
        await bench.settle()
        bench.create("A")
        bench.link.register_soon()
        topics, version, answer = await bench.namesrv.next()
        assert (topics, version) == ({"A"}, 1)
        answer.set_result(Frame(0))
        for _ in range(2):
            bench.registrar._announce()
            topics, version, answer = await bench.namesrv.next()
            assert (topics, version) == ({"Old", "A"}, 2)
            answer.set_result(Frame(0))


async def test_a_period_ends_though_topics_are_created_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PERIOD_MIN_S", 0.05)
    monkeypatch.setattr(module, "PERIOD_MAX_S", 0.05)
    async with played(monkeypatch) as bench:
        await bench.settle()
        for number in range(100_000):
            bench.create(f"T{number}")
            bench.link.register_soon()
            topics, _, answer = await bench.namesrv.next()
            answer.set_result(Frame(0))
            if "Old" in topics:
                return
        raise AssertionError("the whole table never came")


async def test_periods_bring_the_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PERIOD_MIN_S", 0.001)
    monkeypatch.setattr(module, "PERIOD_MAX_S", 0.001)
    async with played(monkeypatch) as bench:
        await bench.settle()
        for _ in range(3):
            topics, _, answer = await bench.namesrv.next()
            assert topics == {"Old"}
            answer.set_result(Frame(0))


async def test_a_running_registration_ends_before_unregistering(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with played(monkeypatch) as bench:
        await bench.settle()
        bench.create("A")
        bench.link.register_soon()
        _, _, answer = await bench.namesrv.next()
        gone = asyncio.create_task(bench.link.unregister(20.0))
        for _ in range(3):
            await asyncio.sleep(0)
        assert bench.namesrv.under_way_at_the_end is None, "the NameServer has not answered yet"
        answer.set_result(Frame(0))
        await gone
        assert bench.namesrv.under_way_at_the_end == 0


async def test_a_broker_that_unregistered_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async with played(monkeypatch) as bench:
        await bench.settle()
        await asyncio.sleep(0)
        bench.create("A")
        bench.link.register_soon()  # in the same moment as the stop
        bench.link.stop()
        await asyncio.wait([bench.link._task], timeout=10.0)
        assert bench.link._task.done()
        assert bench.namesrv.asked.empty()
        bench.registrar._stopping.set()
        before = dict(bench.registrar._links)
        bench.registrar._namesrvs = type("List", (), {"addresses": ("127.0.0.1:1",)})()
        bench.registrar._look()
        assert bench.registrar._links == before, "no link to another NameServer after the stop"


@pytest.mark.parametrize(
    ("asked_ms", "period"), [("1", 10.0), ("10000", 10.0), ("45000", 45.0), ("600000", 60.0)]
)
def test_the_period_is_between_ten_and_sixty_seconds(asked_ms: str, period: float) -> None:
    flags = pairs({"registerNameServerPeriod": asked_ms}, "test")
    settings = broker_settings(load(BROKER, flags=flags))
    unused: Any = None
    context = module.LinkContext(unused, unused, unused, lambda: settings, unused, unused, unused)
    assert context.period == period
