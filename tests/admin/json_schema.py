"""The fields of JSON rows and their types, in order: `schemas/COMMAND.json` for commands with a
recording, `schemas/own/COMMAND.json` for others and for commands that write files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

RECORDED_SCHEMAS = Path(__file__).parent / "schemas"
SCHEMAS = RECORDED_SCHEMAS / "own"
TYPES = {
    bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object",
    type(None): "null",
}  # fmt: skip


def check_rows(command: str, rows: Iterable[Mapping[str, Any]], schemas: Path = SCHEMAS) -> None:
    """Compare a command's rows with its schema. A type is one of TYPES, or several by a bar.

    The field "*" has the type of all fields that the schema does not name.
    """
    path = schemas / f"{command.replace(' ', '_')}.json"
    schema: dict[str, str] = json.loads(path.read_text())
    for row in rows:
        if "*" not in schema:
            new = f"fields of {command}: change {path.name} if they are new"
            assert list(row) == list(schema), new
        for name, value in row.items():
            types = schema.get(name, schema.get("*", "")).split("|")
            assert TYPES[type(value)] in types, f"{command}: {name} is {value!r}, not {types}"
