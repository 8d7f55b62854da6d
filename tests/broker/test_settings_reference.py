"""The tables beside what RocketMQ 4.9.7 knows: `-p` and `-m` of its servers, types of its classes.

`tests/golden/settings/settings.json` has no default where it depends on the machine.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from mqserver import file_modes, logs
from mqserver.config import settings
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load
from mqserver.config.namesrv_table import NAMESRV
from mqserver.config.settings import (
    BrokerSettings,
    ClientTlsSettings,
    NamesrvSettings,
    ServerTlsSettings,
    snake,
)
from mqserver.config.table import INT_MAX, Setting, Table, shown
from mqstore import Settings

ROOT = Path(__file__).parent.parent.parent
GOLDEN = json.loads((ROOT / "tests/golden/settings/settings.json").read_text())
ROWS = [(table, row) for table, name in ((BROKER, "broker"), (NAMESRV, "namesrv"))
        for row in GOLDEN[name]]  # fmt: skip
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
OURS = {
    # of 4.9.8, or read by RocketMQ from the file alone
    "configBlackList", "rmqAddressServerDomain", "rmqAddressServerSubGroup",
    # of RocketMQ 5
    "diskSpaceCleanForciblyRatio", "diskSpaceWarningLevelRatio", "scanNotActiveBrokerInterval",
    # of system properties of RocketMQ
    "aclPlainFile",
    # ours
    "aclWhiteListSkipsSignature", "adminAllowAddresses", "advertisedPort", "allocateStepBytes",
    "autoCreateGroupMax", "autoCreateTopicMax", "autoCreateTopicPerSecond", "bindAddress",
    "brokerAllowAddresses", "brokerExpiry", "brokerIdMax", "brokerRegistrationMax",
    "brokerTopicMax", "clientGroupMax", "clientQueueLockMax",
    "consumerOffsetMax", "damagePolicy", "dataPlane", "fastPortEnable", "handoffThreads", "logDir",
    "logFileBytes", "logFileCount", "logLevel", "maxConnections", "maxFilterBytes", "maxFrameBytes",
    "maxFrameSeconds", "maxHeaderBytes", "maxHeaderFields", "maxHeartbeatBytes",
    "maxLargeRequestBytes", "maxSubscriptionBytes", "maxUnfinishedFrameBytes", "metricsListen",
    "minFrameBytesPerSecond", "minFreeBytes", "queueLockMax", "registrationSecret",
    "statsItemMax", "storeFileMode", "topicRouteMax", "unknownGroupOffsetMax", "workerThreads",
}  # fmt: skip


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


def test_there_is_no_other_key_but_ours() -> None:
    known = {row["key"] for _, row in ROWS}
    others = {key for key in (*BROKER, *NAMESRV) if not key.startswith("tls.")}
    assert others - known == OURS, "system properties of RocketMQ aside: tls.*"


def test_the_important_ones_are_rocketmqs() -> None:
    wanted = {row["key"] for row in GOLDEN["broker"] if row.get("important")}
    ours = {key for key, setting in BROKER.items() if setting.important}
    assert ours - wanted == {"listenPort", "bindAddress", "tls.server.mode"}
    assert wanted <= ours
    lines = load(BROKER).lines(important_only=True)
    assert {line.partition("=")[0] for line in lines} == ours


TLS_FIELDS = {
    **{f"tls_server_{name}": name for name in ServerTlsSettings._fields},
    **{f"tls_client_{name}": name for name in ClientTlsSettings._fields},
    "tls_test_mode_enable": "tls_test_mode_enable",
}
"""Settings that two kinds share are objects of their own, without the keys' first words."""


def fates(table: Table, kind: type, store: bool) -> dict[str, str]:
    """What becomes of each key that is not inert: who holds its value."""
    held = {*kind._fields, *TLS_FIELDS}  # type: ignore[attr-defined]
    stored = {field.metadata["key"] for field in fields(Settings)} if store else set()
    readers = Path(settings.__file__).read_text() + Path(logs.__file__).read_text()
    checked = {file_modes.KEY, *re.findall(r'loaded\.values\["(\w+)"\]', readers)}
    fate = {}
    for key, setting in table.items():
        if not setting.inert:
            fate[key] = (
                "field" if snake(key) in held else
                "store" if key in stored else "checked" if key in checked else ""
            )  # fmt: skip
    return fate


NOT_HELD = {"configStorePath", "rocketmqHome", "tls.config.file"}
"""The NameServer shows the first two; the third has its effect while it is read."""


@pytest.mark.parametrize(
    ("table", "kind", "store"), [(BROKER, BrokerSettings, True), (NAMESRV, NamesrvSettings, False)]
)
def test_every_key_that_is_not_inert_has_an_effect(table: Table, kind: type, store: bool) -> None:
    fate = fates(table, kind, store)
    assert {key for key, held in fate.items() if not held} - NOT_HELD == set()
    sources = [
        path.read_text()
        for path in (ROOT / "mqserver").rglob("*.py")
        if path.name not in ("settings.py", "broker_table.py", "store_table.py")
    ]
    read = set(re.findall(r"\.(\w+)", "\n".join(sources)))
    read |= set(re.findall(r"\bself\.(\w+)", Path(settings.__file__).read_text()))
    held = {key: snake(key) for key, kept in fate.items() if kept == "field"}
    unread = {key for key, name in held.items() if TLS_FIELDS.get(name, name) not in read}
    assert unread - {"fileReservedTime"} == set(), "nobody asks for these"


@pytest.mark.parametrize("key", [key for key, setting in BROKER.items() if setting.online])
def test_an_online_key_reaches_who_uses_it(key: str) -> None:
    """Not the store's other settings: they are fixed when it opens."""
    held = fates(BROKER, BrokerSettings, True)[key]
    assert held == "field" or key in CLEANING


CLEANING = {
    key
    for key, setting in BROKER.items()
    if re.search("clean|delete|disk|ReservedTime|redelete", key, re.IGNORECASE)
}


def test_a_row_says_what_it_is_for() -> None:
    rows: list[Setting] = [*BROKER.values(), *NAMESRV.values()]
    assert all(row.inert or row.about for row in rows)
    assert not [row.key for row in rows if row.inert and row.online]
