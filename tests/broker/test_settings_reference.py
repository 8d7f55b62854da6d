"""The tables beside what RocketMQ 4.9.7 knows: `-p` and `-m` of its servers, types of its classes.

`tests/golden/settings/settings.json` has no default where it depends on the machine.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import fields
from inspect import getsource
from pathlib import Path
from typing import Any

import pytest

from mqserver.config.broker_table import BROKER, BrokerSettings
from mqserver.config.load import load
from mqserver.config.log_table import LogSettings
from mqserver.config.namesrv_table import NAMESRV, NamesrvSettings
from mqserver.config.table import INT_MAX, ROCKETMQ, Group, Setting, Table, shown
from mqserver.config.tls_table import ClientTlsSettings, ServerTlsSettings
from mqstore import Settings

ROOT = Path(__file__).parent.parent.parent
GOLDEN = json.loads((ROOT / "tests/golden/settings/settings.json").read_text())
ROWS = [(table, row) for table, name in ((BROKER, "broker"), (NAMESRV, "namesrv"))
        for row in GOLDEN[name]]  # fmt: skip
GROUPS = (BrokerSettings, NamesrvSettings, ServerTlsSettings, ClientTlsSettings, LogSettings)
KINDS = {"int": int, "long": int, "boolean": bool, "String": str}
BY_CORES = {
    "sendMessageThreadPoolNums",
    "putMessageFutureThreadPoolNums",
    "pullMessageThreadPoolNums",
    "processReplyMessageThreadPoolNums",
    "queryMessageThreadPoolNums",
    "heartbeatThreadPoolNums",
    "endTransactionThreadPoolNums",
    "clientCallbackExecutorThreads",
}
TABLES = "mqserver/config/*_table.py"
"""The file to edit when one of these fails."""


def name(case: Any) -> str:
    return str(case["key"]) if isinstance(case, dict) else ""


@pytest.mark.parametrize(("table", "row"), ROWS, ids=name)
def test_a_key_of_rocketmq_has_its_type_and_default(table: Table, row: dict[str, str]) -> None:
    setting = table[row["key"]]
    assert type(setting.default) is KINDS[row["type"]]
    if "default" in row and (row["key"] not in BY_CORES or os.cpu_count() == GOLDEN["cores"]):
        assert shown(setting.default) == row["default"]
        assert setting.read(row["default"]) == setting.default
    if row["type"] == "int" and not setting.inert:
        assert setting.ceiling <= INT_MAX, "a Java broker could not read it"


def test_a_row_says_truly_whether_rocketmq_lists_its_key() -> None:
    listed = {row["key"] for _, row in ROWS}
    for key, row in {**BROKER, **NAMESRV}.items():
        if key.startswith("tls."):
            continue  # system properties of RocketMQ, and ours beside them
        if key in listed:
            assert row.known_to == ROCKETMQ, f"{TABLES}: RocketMQ 4.9.7 lists {key}: use setting()"
        else:
            assert row.known_to != ROCKETMQ, (
                f"{TABLES}: RocketMQ 4.9.7 has no {key}: use ours(), or setting(known_to=...)"
            )


def test_the_important_ones_are_rocketmqs() -> None:
    wanted = {row["key"] for row in GOLDEN["broker"] if row.get("important")}
    ours = {key for key, setting in BROKER.items() if setting.important}
    assert ours - wanted == {"listenPort", "bindAddress", "tls.server.mode"}, TABLES
    assert wanted <= ours
    lines = load(BROKER).lines(important_only=True)
    assert {line.partition("=")[0] for line in lines} == ours


SOURCES = {
    path: path.read_text()
    for path in (ROOT / "mqserver").rglob("*.py")
    if not path.name.endswith("_table.py")
}
STORE = {field.metadata["key"] for field in fields(Settings)}
ONLY_SHOWN = {"configStorePath", "rocketmqHome"}
"""The NameServer shows these two."""


@pytest.mark.parametrize("kind", GROUPS)
def test_every_setting_has_an_effect(kind: type[Group]) -> None:
    """Some code reads its field or its key, or the broker passes its key to the store."""
    text = "\n".join(SOURCES.values())
    read = set(re.findall(r"\.(\w+)", text)) | set(re.findall(r'"([\w.]+)"', text))
    for base in kind.__mro__:
        read |= set(re.findall(r"\bself\.(\w+)", getsource(base) if base is not object else ""))
    for field, row in kind.rows().items():
        used = field in read or row.key in read | STORE | ONLY_SHOWN
        assert used, f"{row.key} ({TABLES}): nothing in mqserver/ reads .{field}"


@pytest.mark.parametrize("key", [key for key, setting in BROKER.items() if setting.online])
def test_an_online_key_reaches_what_uses_it(key: str) -> None:
    """The store's settings are fixed when it opens, except the settings for cleaning."""
    assert key not in STORE or key in CLEANING, f"{key} ({TABLES}) cannot be online"


CLEANING = {
    key
    for key, setting in BROKER.items()
    if re.search("clean|delete|disk|ReservedTime|redelete", key, re.IGNORECASE)
}


def test_a_row_says_what_it_is_for() -> None:
    rows: list[Setting] = [*BROKER.values(), *NAMESRV.values()]
    assert [row.key for row in rows if not (row.inert or row.about)] == [], TABLES
    assert [row.key for row in rows if row.inert and row.online] == [], TABLES
