"""The key-value tables of the NameServer, by namespace, stored in one JSON file."""

from __future__ import annotations

import threading
from typing import Any

from mqcommon import fastjson
from mqcommon.files import StateFile
from mqserver.config.loaded import AnyPath, SettingsError
from mqstore import StoreError

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""The namespace whose entries name the brokers of each ordered topic."""


class KeyValues:
    """Values by namespace and key; every change is on the disk before it is answered."""

    def __init__(self, path: AnyPath) -> None:
        self._file = StateFile(path)
        self._lock = threading.Lock()
        self._tables = _loaded(self._file)

    def get(self, namespace: str | None, key: str | None) -> str | None:
        """One value, None if it does not exist."""
        if namespace is None or key is None:
            return None
        with self._lock:
            return self._tables.get(namespace, {}).get(key)

    def table(self, namespace: str | None) -> dict[str, str] | None:
        """A copy of a namespace, None if it does not exist."""
        with self._lock:
            table = None if namespace is None else self._tables.get(namespace)
            return None if table is None else dict(table)

    def put(self, namespace: str, key: str, value: str | None) -> None:
        """Set a value and save; as in RocketMQ, None removes the value."""
        with self._lock:
            table = dict(self._tables.get(namespace, {}))
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
            self._save({**self._tables, namespace: table})

    def delete(self, namespace: str | None, key: str | None) -> None:
        """Remove a value if it is there, and save. An empty namespace stays, as in RocketMQ."""
        if namespace is None or key is None:
            return
        with self._lock:
            tables = {name: dict(table) for name, table in self._tables.items()}
            tables.get(namespace, {}).pop(key, None)
            self._save(tables)

    def _save(self, tables: dict[str, dict[str, str]]) -> None:
        """Save the file, and change the tables in memory only afterwards."""
        self._file.save(fastjson.dumps({"configTable": tables}).encode())
        self._tables = tables


def _loaded(file: StateFile) -> dict[str, dict[str, str]]:
    """Load the tables; no file means no tables.

    Raises SettingsError, which stops the start, if the file and its previous copy are damaged.
    """
    try:
        found = file.load(read_tables)
    except StoreError as error:
        raise SettingsError(f"kvConfigPath {error}") from error
    except OSError as error:
        raise SettingsError(f"cannot read kvConfigPath {file.path}: {error}") from error
    if found is None:
        return {}
    tables, aside = found
    if aside:
        file.set_aside(aside)
    return tables


def read_tables(text: bytes) -> tuple[dict[str, dict[str, str]], list[tuple[str, str, str]]]:
    """Parse the text of the file: its tables, and the entries that cannot be used.

    Raises ValueError if nothing in the text can be used.
    """
    try:
        plain = fastjson.loads(text.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    table: Any = plain.get("configTable") if isinstance(plain, dict) else None
    if not isinstance(table, dict) and plain != {}:
        raise ValueError("configTable is not a table of tables")
    tables: dict[str, dict[str, str]] = {}
    aside = []
    for namespace, rows in (table or {}).items():
        if not isinstance(rows, dict):
            aside.append((namespace, "not a table", fastjson.dumps(rows)))
            continue
        found = {key: _text(value) for key, value in rows.items()}
        tables[namespace] = {key: value for key, value in found.items() if value is not None}
        bad = ((key, value) for key, value in rows.items() if _is_no_text(value))
        aside += [(f"{namespace} {key}", "not text", fastjson.dumps(value)) for key, value in bad]
    if aside and not any(tables.values()):
        raise ValueError(f"{aside[0][0]}: {aside[0][1]}")
    return tables, aside


def _is_no_text(value: object) -> bool:
    return value is not None and _text(value) is None


def _text(value: object) -> str | None:
    """A value as text, as RocketMQ reads it; None for a list or an object."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int, float)) else None
