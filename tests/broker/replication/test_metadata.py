"""A slave copies topics, groups, offsets and the progress of delays from its master."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mqcommon.wire.bodies.base import BodyError
from mqcommon.wire.bodies.common import DataVersion, KVTable
from mqcommon.wire.bodies.groups import GroupConfig, SubscriptionGroupWrapper
from mqcommon.wire.bodies.heartbeat import SubscriptionData
from mqcommon.wire.bodies.offsets import ConsumerOffsetSerializeWrapper
from mqcommon.wire.bodies.replication import SlaveState
from mqcommon.wire.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.frame import Frame
from mqserver.broker.processors import replication
from mqserver.broker.replication import metadata
from mqserver.broker.replication.metadata import MetadataCopy, master_figures
from mqserver.broker.state.filters import BloomShape, Filters
from tests.broker.replication.test_offsets import Offsets
from tests.broker.test_state import Room

TOPICS = TopicConfigSerializeWrapper({"Orders": TopicConfig("Orders")}, DataVersion(4, 44))
GROUPS = SubscriptionGroupWrapper({"G": GroupConfig("G", retry_max_times=3)}, DataVersion(5, 55))
SHAPE = BloomShape(20, 32)
DELAYS = b'{"offsetTable":{3:7}}'
FIGURES = {"commitLogMinOffset": "10", "commitLogMaxOffset": "90", "bootTimestamp": "1"}


def filters() -> str:
    """A text of consumerFilter.json with one living filter."""
    made = Filters(SHAPE, 10**9, lambda: 7, lambda _: None)
    made.follow("G", [SubscriptionData("Orders", "a > 1", expression_type="SQL92")])
    return made.render().decode()


class Master:
    """Answers the requests of a copy; `asked` holds their codes."""

    def __init__(self) -> None:
        offsets = ConsumerOffsetSerializeWrapper({"Orders@G": {0: 5}})
        self.replies = {
            Code.GET_BROKER_RUNTIME_INFO: Frame(0, body=KVTable(dict(FIGURES)).to_json()),
            Code.GET_ALL_TOPIC_CONFIG: Frame(0, body=TOPICS.to_json()),
            Code.GET_ALL_CONSUMER_OFFSET: Frame(0, body=offsets.to_json()),
            Code.GET_ALL_DELAY_OFFSET: Frame(0, body=DELAYS),
            Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Frame(0, body=GROUPS.to_json()),
            Code.GET_SLAVE_STATE: Frame(0, body=SlaveState(filters(), "{}").to_json()),
        }
        self.asked: list[Code] = []

    async def ask(self, code: Code) -> Frame:
        self.asked.append(code)
        return self.replies[code]


class Slave:
    """The tables of a slave, and the files that its saver would write."""

    def __init__(self) -> None:
        room = Room()
        self.settings, self.acl = room.settings, None
        self.filters = Filters(SHAPE, 10**9, lambda: 7, room.saved.append)
        self.topics, self.groups, self.store = room.topics, room.groups, Offsets()
        self.saver = self
        self.saved = room.saved
        self.renders: dict[str, object] = {}
        self.copy = MetadataCopy(self)  # type: ignore[arg-type]

    def add(self, name: str, render: object) -> None:
        self.renders[name] = render

    def mark(self, name: str) -> None:
        self.saved.append(name)

    def copied(self, master: Master) -> None:
        asyncio.run(self.copy.round(master.ask, "1"))


def test_all_is_copied_in_rocketmqs_order() -> None:
    slave, master = Slave(), Master()
    slave.topics.put(TopicConfig("Gone"))
    slave.copied(master)
    assert master.asked == [21, 43, 45, 201, 30_000]
    assert slave.topics.get("Orders") == TopicConfig("Orders")
    assert slave.topics.get("Gone") is None
    assert slave.topics.get("SCHEDULE_TOPIC_XXXX") is not None, "a built-in topic stays"
    assert slave.topics.version == TOPICS.data_version
    assert slave.groups.get("G") == GroupConfig("G", retry_max_times=3)
    assert slave.groups.version == GROUPS.data_version
    assert slave.store.table == {"Orders@G": {0: 5}}
    assert slave.saved == [
        "topics.json",
        "delayOffset.json",
        "subscriptionGroup.json",
        "consumerFilter.json",
    ]
    assert slave.filters.render().decode() == filters()
    assert slave.store.deletions == ["{}"]
    assert slave.renders["delayOffset.json"]() == DELAYS  # type: ignore[operator]


def test_what_has_not_changed_is_not_saved_again() -> None:
    slave, master = Slave(), Master()
    slave.copied(master)
    slave.saved.clear()
    slave.copied(master)
    assert not slave.saved


def test_a_refusal_keeps_what_was_copied_before() -> None:
    slave, master = Slave(), Master()
    master.replies[Code.GET_ALL_CONSUMER_OFFSET] = Frame(1, remark="busy")
    with pytest.raises(ConnectionError, match="GET_ALL_CONSUMER_OFFSET with code 1: busy"):
        slave.copied(master)
    assert slave.topics.get("Orders") is not None
    assert slave.groups.get("G") is None


def test_a_master_of_rocketmq_is_asked_once_for_what_it_lacks() -> None:
    slave, master = Slave(), Master()
    master.replies[Code.GET_SLAVE_STATE] = Frame(3, remark=" request type 30000 not supported")
    slave.copied(master)
    slave.copied(master)
    assert master.asked.count(Code.GET_SLAVE_STATE) == 1
    asyncio.run(slave.copy.round(master.ask, "after its restart"))
    assert master.asked.count(Code.GET_SLAVE_STATE) == 2


def test_the_filter_of_an_own_member_is_kept() -> None:
    slave, master = Slave(), Master()
    own = SubscriptionData("Orders", "a > 1", expression_type="SQL92")
    slave.filters.follow("G", [own])
    before = slave.filters.render()
    dead = Filters(SHAPE, 10**9, lambda: 9, lambda _: None)
    dead.follow("G", [own])
    dead.follow("G", [])
    state = SlaveState(dead.render().decode(), "{}")
    master.replies[Code.GET_SLAVE_STATE] = Frame(0, body=state.to_json())
    slave.copied(master)
    assert slave.filters.render() == before


@pytest.mark.parametrize("code", [21, 43, 45, 201, 30_000])
def test_a_senseless_body_is_an_error(code: int) -> None:
    slave, master = Slave(), Master()
    master.replies[Code(code)] = Frame(0, body=b"[1")
    with pytest.raises(BodyError):
        slave.copied(master)


def figures(**changed: str) -> Master:
    """A master whose figures are changed."""
    master = Master()
    table = KVTable(FIGURES | changed)
    master.replies[Code.GET_BROKER_RUNTIME_INFO] = Frame(0, body=table.to_json())
    return master


@pytest.mark.parametrize(("low", "shown"), [("10", 10), ("-1", 0)], ids=["usual", "empty"])
async def test_the_figures_of_a_master(low: str, shown: int) -> None:
    found = await master_figures(figures(commitLogMinOffset=low).ask)
    assert found == metadata.MasterFigures(shown, 90, "1")


@pytest.mark.parametrize("end", ["", "soon", str(2**63)], ids=["none", "words", "huge"])
async def test_senseless_figures_are_an_error(end: str) -> None:
    with pytest.raises(ValueError, match=r"invalid literal|no physical offset"):
        await master_figures(figures(commitLogMaxOffset=end).ask)


def test_filters_that_fit_no_reply_are_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slave, master = Slave(), Master()
    slave.copied(master)
    monkeypatch.setattr(replication, "SLAVE_STATE_BYTES_MAX", len(filters()))
    broker = SimpleNamespace(filters=slave.filters, store=SimpleNamespace(deletions=lambda: "{}"))
    reply = replication.slave_state(broker, None)  # type: ignore[arg-type]
    assert SlaveState.from_json(reply.body) == SlaveState("", "{}")
    master.replies[Code.GET_SLAVE_STATE] = Frame(0, body=reply.body)
    slave.copied(master)
    slave.copied(master)
    assert caplog.text.count("too large for one reply") == 1
    assert slave.filters.render().decode() == filters(), "those that were copied stay"
