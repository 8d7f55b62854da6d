"""The key-value tables of the NameServer, by namespace, kept in one JSON file."""

from __future__ import annotations

import os
import threading

from mqserver.config.load import AnyPath, SettingsError
from mqstore import fastjson

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""Its entries say on which brokers an ordered topic lives."""


class KeyValues:
    """Namespace to key to value; every change is on disk before it is answered."""

    def __init__(self, path: AnyPath) -> None:
        self._path = os.fspath(path)
        self._lock = threading.Lock()
        self._tables = _loaded(path)

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
            table = self._tables.setdefault(namespace, {})
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
            self._save()

    def delete(self, namespace: str | None, key: str | None) -> None:
        """Remove a value if it is there, and save. An empty namespace stays, as in RocketMQ."""
        if namespace is None or key is None:
            return
        with self._lock:
            self._tables.get(namespace, {}).pop(key, None)
            self._save()

    def _save(self) -> None:
        """Temporary file, fsync, previous copy to `.bak`, rename."""
        os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
        temporary = self._path + ".tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(fastjson.dumps({"configTable": self._tables}))
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(self._path):
            with open(self._path, "rb") as before, open(self._path + ".bak", "wb") as backup:
                backup.write(before.read())
        os.replace(temporary, self._path)


def _loaded(path: AnyPath) -> dict[str, dict[str, str]]:
    """Read the file; none is an empty table, a broken one stops the start."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"cannot read kvConfigPath {path}: {error.strerror}") from error
    try:
        plain = fastjson.loads(text) if text.strip() else {}
    except ValueError as error:
        raise SettingsError(f"kvConfigPath {path} is not RocketMQ's JSON: {error}") from error
    tables = plain.get("configTable", {}) if isinstance(plain, dict) else {}
    return {
        str(namespace): {str(key): str(value) for key, value in table.items()}
        for namespace, table in tables.items()
    }
