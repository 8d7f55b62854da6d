"""The text of a table follows its rows, whatever changed since the last time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mqcommon import fastjson
from mqcommon.wire.bodies.common import DataVersion
from mqcommon.wire.bodies.groups import GroupConfig, SubscriptionGroupWrapper
from mqcommon.wire.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from mqserver.broker.state.table_text import TableText
from tests.examples import examples

NAMES = st.sampled_from(["a", "b", "%RETRY%g", "Ü", "Z", '"'])
TABLES = st.lists(st.dictionaries(NAMES, st.integers(0, 9)), min_size=1, max_size=6)


@examples(60)
@given(TABLES)
def test_every_text_is_that_of_the_whole_body(tables: list[dict[str, int]]) -> None:
    text = TableText("topicConfigTable")
    for counter, queues in enumerate(tables):
        rows = {
            name: TopicConfig(name, read_queue_nums=count, write_queue_nums=count)
            for name, count in queues.items()
        }
        version = DataVersion(counter, 7)
        whole = TopicConfigSerializeWrapper(rows, version).to_plain()
        assert text.render(rows, version) == fastjson.dumps(whole, pretty=True).encode()


def test_groups_have_the_text_of_their_body() -> None:
    rows = {name: GroupConfig(name) for name in ("g", "f")}
    whole = SubscriptionGroupWrapper(rows, DataVersion(3, 7)).to_plain()
    text = TableText("subscriptionGroupTable").render(rows, DataVersion(3, 7))
    assert text == fastjson.dumps(whole, pretty=True).encode()
