"""The key-value tables of the NameServer, by namespace, kept in one JSON file."""

from __future__ import annotations

import logging
import os
import threading

from mqserver.config.load import AnyPath, SettingsError
from mqstore import fastjson, files

log = logging.getLogger("mqserver.names")
BYTES_MAX = 64 << 20
"""A larger file is refused."""

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""Its entries say on which brokers an ordered topic lives."""


class KeyValues:
    """Namespace to key to value; every change is on disk before it is answered."""

    def __init__(self, path: AnyPath) -> None:
        self._path = os.fspath(path)
        self._lock = threading.Lock()
        self._tables, self._is_damaged = _loaded(self._path)

    def get(self, namespace: str | None, key: str | None) -> str | None:
        """One value, None if there is none."""
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
        """Set a value and save; None leaves the key without one, as RocketMQ's null does."""
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
        """Memory changes only once the file did."""
        files.make_folders(os.path.dirname(self._path))
        text = fastjson.dumps({"configTable": tables})
        files.replace(self._path, text.encode(), backup=not self._is_damaged)
        self._tables = tables
        self._is_damaged = False


def _loaded(path: str) -> tuple[dict[str, dict[str, str]], bool]:
    """The tables, and whether they are those of the previous copy, because the file is damaged.

    No file is an empty table; one that is damaged, as its previous copy is, stops the start.
    """
    first: SettingsError | None = None
    for name in (path, path + ".bak"):
        try:
            text = files.read_own(name, BYTES_MAX)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise SettingsError(f"cannot read kvConfigPath {name}: {error.strerror}") from error
        try:
            tables = _tables(text)
        except ValueError as error:
            log.warning("kvConfigPath %s is damaged, its previous copy is tried: %s", name, error)
            first = first or SettingsError(
                f"kvConfigPath {name} is not RocketMQ's JSON: {error}; put a good copy there, or "
                "move it away to begin without it"
            )
        else:
            return tables, first is not None
    if first is not None:
        raise first
    return {}, False


def _tables(text: bytes) -> dict[str, dict[str, str]]:
    """Raises ValueError where the text is no such file."""
    plain = fastjson.loads(text)
    tables = plain.get("configTable", {}) if isinstance(plain, dict) else None
    if not isinstance(tables, dict) or not all(isinstance(row, dict) for row in tables.values()):
        raise ValueError("configTable is no table of tables")
    return {
        str(namespace): {str(key): str(value) for key, value in table.items()}
        for namespace, table in tables.items()
    }
