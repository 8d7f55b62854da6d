"""Writes the settings page of the documentation from the tables.

`make pages` updates docs/settings.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from mqserver.config.broker_table import BROKER
from mqserver.config.namesrv_table import NAMESRV
from mqserver.config.table import LONG_MAX, ROCKETMQ, Setting, Table, shown

HEAD = """# Settings

`make pages` writes this page from the tables that the servers read.

A configuration file is a Java properties file with RocketMQ's keys. A value may come from several
places; the last of this list wins:

1. the default
2. the environment (`NAMESRV_ADDR`, `ROCKETMQ_HOME`; for `brokerIP1` and `advertisedPort`
   `MQSTACK_ADVERTISE`, as host or host:port)
3. the configuration file (`-c FILE`)
4. changes made while the server ran (`config/broker.override.properties` in the store, and
   `config/namesrv.override.properties` beside the NameServer's `kvConfigPath`)
5. flags (`-n`, `--set KEY=VALUE`)

`mqserver broker start -p` prints every value with its origin. `mqserver broker check -c FILE` names
the lines that have errors or no effect. An unknown key of a file is a warning, because RocketMQ
ignores it; an unknown key of a flag is an error. *online* marks a setting that may change while the
server runs, for example with `updateBrokerConfig` of RocketMQ's `mqadmin`. The lists below each
table name the keys that RocketMQ 4.9.7 does not have, and the keys without effect.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [HEAD, *_section("Broker", BROKER), *_section("NameServer", NAMESRV)]
    return "\n".join(parts)


def _section(title: str, table: Table) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| key | default | allowed | meaning |"
    yield "|---|---|---|---|"
    for setting in table.values():
        if not setting.inert:
            about = ("*online* " if setting.online else "") + setting.about
            cells = (f"`{setting.key}`", _default(setting), _allowed(setting), about)
            yield f"| {' | '.join(cells)} |"
    yield ""
    yield "Keys that RocketMQ 4.9.7 does not have, by the product that defines them:\n"
    foreign = sorted((s for s in table.values() if s.known_to != ROCKETMQ), key=_known_to)
    for owner, rows in groupby(foreign, key=_known_to):
        yield f"- {owner}: " + ", ".join(f"`{row.key}`" for row in rows)
    yield ""
    yield (
        "Keys of RocketMQ that are accepted for compatibility and have no effect, with the reason. "
        "The server logs a warning if a file sets one to another value than the default.\n"
    )
    inert = sorted((s for s in table.values() if s.inert), key=lambda s: s.inert)
    for why, rows in groupby(inert, key=lambda s: s.inert):
        yield f"- {why}: " + ", ".join(f"`{row.key}`" for row in rows)
    yield ""


def _known_to(setting: Setting) -> str:
    return setting.known_to


def _default(setting: Setting) -> str:
    text = shown(setting.default)
    return f"`{text}`" if text else ""


def _allowed(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(setting.choices)
    if isinstance(setting.default, bool) or not isinstance(setting.default, int):
        return "true, false" if isinstance(setting.default, bool) else ""
    ceiling = "" if setting.ceiling >= LONG_MAX else f"{setting.ceiling}"
    unit = f" {setting.unit}" if setting.unit else ""
    return f"{setting.floor}..{ceiling}{unit}"
