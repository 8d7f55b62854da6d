"""The settings tables know every key that RocketMQ 4.9.7 shows, with RocketMQ's defaults."""

from __future__ import annotations

import pytest

from mqcommon.java_properties import parse
from mqcommon.wire.frame import decode
from mqserver.config.broker_table import BROKER
from mqserver.config.namesrv_table import NAMESRV
from mqserver.config.table import Table, shown
from tests.common.wire.golden import FOLDER, frames

CHOSEN = (
    "brokerName brokerIP1 brokerIP2 namesrvAddr rocketmqHome storePathRootDir storePathCommitLog "
    "mappedFileSizeCommitLog mappedFileSizeConsumeQueue maxHashSlotNum maxIndexNum "
    "enablePropertyFilter transactionCheckInterval transactionTimeOut diskMaxUsedSpaceRatio "
    "brokerFastFailureEnable bitMapLengthConsumeQueueExt kvConfigPath configStorePath"
)
"""Settings of the recorded broker's own host or configuration."""
BY_MACHINE = {
    key for key in BROKER if key.endswith("ThreadPoolNums") or key.startswith("clientCallback")
}


def recorded(session: str, label: str) -> dict[str, str]:
    for frame in frames(FOLDER / session):
        if frame.line.get("label") == label and frame.line["from"] == "server":
            return {entry.key: entry.value for entry in parse(decode(frame.data).body.decode())}
    raise AssertionError(f"{label} is not in {session}")


@pytest.mark.parametrize(
    ("session", "label", "table"),
    [
        ("raw-broker.jsonl.gz", "get broker config", BROKER),
        ("raw-namesrv.jsonl.gz", "get config", NAMESRV),
    ],
)
def test_keys_and_defaults_are_rocketmqs(session: str, label: str, table: Table) -> None:
    theirs = recorded(session, label)
    assert len(theirs) > 15
    assert not theirs.keys() - set(table)
    chosen = set(CHOSEN.split()) | BY_MACHINE
    different = {
        key: (value, shown(table[key].default))
        for key, value in theirs.items()
        if key not in chosen and value != shown(table[key].default)
    }
    assert not different


@pytest.mark.parametrize("table", [BROKER, NAMESRV])
def test_every_row_says_what_it_is(table: Table) -> None:
    for key, setting in table.items():
        assert setting.about or setting.inert, key
        assert not (setting.inert and setting.online), key
        if not isinstance(setting.default, str) or setting.choices:
            assert setting.read(shown(setting.default)) == setting.default, key
