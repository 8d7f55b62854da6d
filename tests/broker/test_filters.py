"""consumerFilter.json: read and written as RocketMQ does, over the life of a subscription."""

from __future__ import annotations

import tarfile
from typing import Any

import pytest

from mqcommon import fastjson
from mqcommon.wire.bodies.base import BodyError
from mqcommon.wire.bodies.heartbeat import ConsumerData, SubscriptionData
from mqserver.broker.state.consumers import Consumers
from mqserver.broker.state.filters import FILE, BloomShape, Filters
from mqserver.broker.state.members import Member
from mqserver.broker.state.reading import read_filters
from mqserver.runtime.data_plane import Tables
from tests.common.wire.golden import FOLDER

STORE = FOLDER.parent / "store-ext" / "store.tar.gz"
DAY_MS = 86_400_000


def golden() -> bytes:
    with tarfile.open(STORE) as archive:
        (member,) = [m for m in archive.getmembers() if m.name.endswith(f"config/{FILE}")]
        found = archive.extractfile(member)
        assert found is not None
        return found.read()


class Table:
    """A table with a clock of its own."""

    def __init__(self, error_percent: int = 20) -> None:
        self.now_ms = 1795246364800
        self.saved: list[str] = []
        shape = BloomShape(error_percent, 32)
        self.published: dict[str, Any] = {}
        self.filters = Filters(
            shape, DAY_MS, lambda: self.now_ms, self.saved.append, self.published.update
        )

    def rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        table: Any = fastjson.loads(self.filters.render())
        return {
            (topic, group): row
            for topic, by_group in table["filterDataByTopic"].items()
            for group, row in by_group["groupFilterData"].items()
        }

    def subscribe(
        self, text: str, version: int, topic: str = "T", kind: str = "SQL92", group: str = "g"
    ) -> None:
        data = SubscriptionData(topic, text, sub_version=version, expression_type=kind)
        self.filters.follow(group, [data])

    def leave(self, *groups: str) -> None:
        for group in groups:
            self.filters.follow(group, [])


def test_javas_file_is_read_and_written_with_every_field() -> None:
    table = Table()
    table.filters.load(read_filters(golden()).content)
    assert fastjson.loads(table.filters.render()) == fastjson.loads(golden())


def test_a_file_of_bits_of_another_shape_is_ignored() -> None:
    table = Table(error_percent=10)
    table.filters.load(read_filters(golden()).content)
    assert table.rows() == {}


def test_a_malformed_filter_row_is_skipped_and_others_stay() -> None:
    plain: Any = fastjson.loads(golden())
    by_group = plain["filterDataByTopic"]["TopicExt"]["groupFilterData"]
    first, second = sorted(by_group)
    by_group[first]["bloomFilterData"]["bitPos"] = [1, 2, 3]
    by_group["odd"] = {**by_group[second], "consumerGroup": "odd", "bornTime": "never"}
    by_group["other"] = by_group[second]
    plain["filterDataByTopic"]["none"] = []
    table = Table()
    found = read_filters(fastjson.dumps(plain).encode())
    table.filters.load(found.content)
    assert table.rows().keys() == {("TopicExt", second)}
    assert sorted(name for name, _, _ in found.aside) == [
        "none",
        "odd of TopicExt",
        "other of TopicExt",
    ]


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"filterDataByTopic":3}', b'{"\xff":1}'])
def test_what_is_no_filter_file_is_refused(text: bytes) -> None:
    with pytest.raises(BodyError):
        read_filters(text)


def test_no_file_is_an_empty_table() -> None:
    table = Table()
    table.filters.load(None)
    assert table.rows() == {}


def test_a_subscription_is_born_dies_and_comes_back() -> None:
    table = Table()
    table.subscribe("a > 5", 7)
    (row,) = table.rows().values()
    assert (row["expression"], row["clientVersion"], row["dead"]) == ("a > 5", 7, False)
    assert (row["bornTime"], row["deadTime"]) == (table.now_ms, 0)
    born_ms = table.now_ms
    table.now_ms += 1_000
    table.leave("g")
    (row,) = table.rows().values()
    assert (row["dead"], row["deadTime"]) == (True, table.now_ms)
    table.subscribe("a > 5", 8)
    (row,) = table.rows().values()
    assert (row["dead"], row["bornTime"], row["clientVersion"]) == (False, born_ms, 8)
    table.now_ms += 1_000
    table.subscribe("a > 6", 9)
    (row,) = table.rows().values()
    assert (row["expression"], row["bornTime"]) == ("a > 6", table.now_ms)
    assert table.saved == [FILE] * 4


def heartbeat(consumers: Consumers, connection: int, text: str, version: int) -> None:
    member = Member(f"c{connection}", connection, f"127.0.0.1:{connection}", 0, 407, 1.0)
    data = SubscriptionData("T", text, sub_version=version, expression_type="SQL92")
    consumers.register(ConsumerData("g", subscription_data_set=[data]), member)


def test_an_expression_of_the_top_version_ends_with_its_client() -> None:
    table = Table()
    consumers = Consumers(Tables(), lambda *_: None, table.filters.follow)
    heartbeat(consumers, 1, "a > 5", 7)
    heartbeat(consumers, 2, "a > 6", 2**63 - 1)
    heartbeat(consumers, 1, "a > 5", 8)
    assert table.rows()["T", "g"]["expression"] == "a > 6", "the newest counts, as in RocketMQ"
    consumers.close(2)
    row = table.rows()["T", "g"]
    assert (row["expression"], row["clientVersion"], row["dead"]) == ("a > 5", 8, False)
    assert table.published["T"][1][0][1] == "a > 5"
    heartbeat(consumers, 1, "a > 9", 9)
    assert table.rows()["T", "g"]["expression"] == "a > 9"
    consumers.close(1)
    assert table.rows()["T", "g"]["dead"] is True


@pytest.mark.parametrize("version", [7, 1])
def test_a_member_changes_its_expression_after_a_clock_step_back(version: int) -> None:
    table = Table()
    consumers = Consumers(Tables(), lambda *_: None, table.filters.follow)
    heartbeat(consumers, 1, "a > 5", 7)
    heartbeat(consumers, 2, "a > 5", 2**63 - 1)
    heartbeat(consumers, 1, "a > 6", version)
    assert table.rows()["T", "g"]["expression"] == "a > 6"
    heartbeat(consumers, 1, "a > 6", version)
    heartbeat(consumers, 2, "a > 5", 2**63 - 1)  # as before, so no change of this member
    heartbeat(consumers, 3, "a > 4", 9)  # an older member, after its connection was lost
    row = table.rows()["T", "g"]
    assert (row["expression"], row["clientVersion"]) == ("a > 6", 2**63 - 1)


def test_a_version_from_the_file_locks_nobody_out() -> None:
    before = Table()
    before.subscribe("a > 5", 2**63 - 1)
    after = Table()
    after.filters.load(read_filters(before.filters.render()).content)
    consumers = Consumers(Tables(), lambda *_: None, after.filters.follow)
    heartbeat(consumers, 1, "a > 5", 7)
    heartbeat(consumers, 1, "a > 6", 8)
    row = after.rows()["T", "g"]
    assert (row["expression"], row["clientVersion"], row["dead"]) == ("a > 6", 8, False)


def test_tags_and_what_does_not_compile_are_no_filters() -> None:
    table = Table()
    table.subscribe("TagA || TagB", 7, kind="TAG")
    table.subscribe("a >", 7)
    assert table.rows() == {}


def test_a_topic_that_is_left_is_dead_and_forgotten_after_a_day() -> None:
    table = Table()
    table.subscribe("a > 5", 7, topic="left")
    table.subscribe("a > 5", 8, topic="kept")
    assert table.rows()["left", "g"]["dead"] is True
    assert table.rows()["kept", "g"]["dead"] is False
    table.now_ms += DAY_MS + 1
    assert table.rows().keys() == {("kept", "g")}


def test_filters_alive_at_a_crash_are_dead_at_the_next_start() -> None:
    before = Table()
    before.subscribe("a > 5", 7)
    after = Table()
    after.now_ms += 60_000
    after.filters.load(read_filters(before.filters.render()).content)
    (row,) = after.rows().values()
    assert (row["dead"], row["deadTime"]) == (True, after.now_ms - 30_000)


def test_the_filters_of_a_topic_are_published_when_they_change() -> None:
    table = Table()
    table.filters.load(read_filters(golden()).content)
    bits, filters = table.published["TopicExt"]
    assert bits == 112
    assert sorted(positions for _, _, positions in filters) == [[37, 36, 35], [80, 74, 68]]

    table.published.clear()
    table.subscribe("a > 5", 7, group="one")
    table.subscribe("a > 6", 7, group="two")
    _, filters = table.published["T"]
    assert [row[:2] for row in filters] == [("one", "a > 5"), ("two", "a > 6")]
    assert table.published.keys() == {"T"}

    table.published.clear()
    table.subscribe("a > 5", 8, group="one")
    table.leave("one", "two")
    assert table.published == {}, "a dead filter keeps its bits: its group may come back"
    table.subscribe("a > 9", 9, group="one")
    assert [text for _, text, _ in table.published["T"][1]] == ["a > 9", "a > 6"]
    table.now_ms += DAY_MS + 1
    table.rows()
    assert [text for _, text, _ in table.published["T"][1]] == ["a > 9"]
    table.leave("one", "two")
    table.now_ms += DAY_MS + 1
    table.rows()
    assert table.published["T"] is None
