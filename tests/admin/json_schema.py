"""The fields of JSON rows and their types, in order: `schemas/own/COMMAND.json`.

For commands without a recording, and commands that write files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).parent / "schemas" / "own"
TYPES = {
    bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object",
    type(None): "null",
}  # fmt: skip


def check_rows(command: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Compare a command's rows with its schema. A type is one of TYPES, or several by a bar."""
    path = SCHEMAS / f"{command.replace(' ', '_')}.json"
    schema: dict[str, str] = json.loads(path.read_text())
    for row in rows:
        assert list(row) == list(schema), f"fields of {command}: change {path.name} if they are new"
        for name, value in row.items():
            types = schema[name].split("|")
            assert TYPES[type(value)] in types, f"{command}: {name} is {value!r}, not {types}"
