"""The text of a state file that has one table of rows by name, and a version."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from mqcommon import fastjson
from mqcommon.wire.bodies.base import Body
from mqcommon.wire.bodies.common import DataVersion


class TableText:
    """Renders the table in RocketMQ's form; a row that did not change keeps its text.

    Creating thousands of topics writes the file hundreds of times.

    table: the table's name in the file, which sorts after "dataVersion".
    """

    def __init__(self, table: str) -> None:
        self._table = table
        self._lock = threading.Lock()
        self._names: list[str] = []
        self._rows: dict[str, Body] = {}
        self._texts: dict[str, str] = {}

    def render(self, rows: Mapping[str, Body], version: DataVersion) -> bytes:
        """The text of the file. A changed row must be another object than before."""
        head = fastjson.dumps({"dataVersion": version.to_plain()}, pretty=True).removesuffix("\n}")
        with self._lock:
            self._follow(rows)
            table = ",\n".join(map(self._texts.__getitem__, self._names))
        table = f"{{\n{table}\n\t}}" if table else "{}"
        return f'{head},\n\t"{self._table}":{table}\n}}'.encode()

    def _follow(self, rows: Mapping[str, Body]) -> None:
        known = self._rows
        changed = [name for name, row in rows.items() if known.get(name) is not row]
        added = [name for name in changed if name not in known]
        for name in changed:
            known[name], self._texts[name] = rows[name], _row_text(name, rows[name])
        self._names += added
        if len(self._names) != len(rows):
            for name in known.keys() - rows.keys():
                del known[name], self._texts[name]
            self._names = list(known)
        self._names.sort()  # fast, because few names are out of place


def _row_text(name: str, row: Body) -> str:
    lines = fastjson.dumps({name: row.to_plain()}, pretty=True).split("\n")[1:-1]
    return "\n".join("\t" + line for line in lines)
