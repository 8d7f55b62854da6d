"""The settings page of the documentation, written from the tables.

`python -m mqserver.config.page > docs/settings.md` renews it; a test holds it to the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from mqserver.config.broker_table import BROKER
from mqserver.config.namesrv_table import NAMESRV
from mqserver.config.table import LONG_MAX, ROCKETMQ, Setting, Table, shown

HEAD = """# Settings

Written by `python -m mqserver.config.page` from the tables that the servers read.

A configuration file is Java-properties text with RocketMQ's names. Where a value comes from, the
last one wins: default, environment (`NAMESRV_ADDR`), file (`-c`), online changes
(`broker.override.properties` beside the store's state), flags (`-n`, `--set KEY=VALUE`).
`mqserver broker start -p` prints every value with its origin; `mqserver broker check -c FILE` says
which line does not work. *online*: may be changed while running (request codes 25 and 318).
Below each table are the keys that RocketMQ 4.9.7 does not list, and those without effect here.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [HEAD, *_section("Broker", BROKER), *_section("NameServer", NAMESRV)]
    return "\n".join(parts)


def _section(title: str, table: Table) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| key | default | allowed | |"
    yield "|---|---|---|---|"
    for setting in table.values():
        if not setting.inert:
            about = ("*online* " if setting.online else "") + setting.about
            cells = (f"`{setting.key}`", _default(setting), _allowed(setting), about)
            yield f"| {' | '.join(cells)} |"
    yield ""
    yield "Not in the configuration of RocketMQ 4.9.7; known to:\n"
    foreign = sorted((s for s in table.values() if s.known_to != ROCKETMQ), key=_known_to)
    for owner, rows in groupby(foreign, key=_known_to):
        yield f"- {owner}: " + ", ".join(f"`{row.key}`" for row in rows)
    yield ""
    yield "Known to RocketMQ, taken without effect (said once when a file sets them):\n"
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


if __name__ == "__main__":
    print(page(), end="")
