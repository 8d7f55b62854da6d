"""Online updates of settings (codes 25 and 318), limited to the keys that may change.

Changes are saved in a file of their own; the operator's file is never written. As in RocketMQ,
unknown keys and keys without effect are ignored. A key that cannot change while the server runs is
refused with code 16, a bad value with code 1.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from mqcommon.java_properties import parse, render
from mqcommon.wire.bodies.common import DataVersion
from mqserver.config.loaded import AnyPath, Loaded, SettingsError
from mqserver.config.overrides import Overrides
from mqserver.config.table import Setting, Value, shown_of
from mqserver.runtime.processor_api import Refused

log = logging.getLogger("mqserver.config")

SYSTEM_ERROR = 1
NO_PERMISSION = 16
_KEY_CHARS_MAX = 100
"""Characters of an unknown key that the log shows."""
PATHS = frozenset({"kvConfigPath", "configStorePath"})
"""Tests of clients expect RocketMQ's remark for these two keys."""


class OnlineSettings:
    """The loaded values of a running server, and the file that saves its changes.

    changed: called with the new values after an accepted update is saved. check_all: raises
    SettingsError if two values contradict each other. version: counts the updates (code 26).
    now_ms: wall clock. in_use: returns the values that the server found for keys that are not set,
    or that RocketMQ derives from others.
    """

    def __init__(
        self,
        loaded: Loaded,
        path: AnyPath,
        changed: Callable[[Loaded], None],
        check_all: Callable[[Loaded], object],
        now_ms: Callable[[], int],
        in_use: Callable[[], Mapping[str, Value]] = dict,
    ) -> None:
        self._loaded = loaded
        self._path = path
        self._changed = changed
        self._check_all = check_all
        self._lock = threading.Lock()
        self._now_ms = now_ms
        self._in_use = in_use
        self.version = DataVersion(0, now_ms())

    def text(self) -> str:
        """Every setting as properties text (codes 26, 319)."""
        values = {**self._loaded.values, **self._in_use()}
        rows = self._loaded.table.items()
        return render({key: shown_of(row, values[key]) for key, row in rows})

    def update(self, text: str, peer: str = "this process") -> bool:
        """Apply properties text to the keys that may change; returns whether the text has any.

        peer: the client that asked, for the log. As in RocketMQ, each update with a text raises the
        version, even if no value changes.
        Raises Refused with code 16 for a key that needs a restart, and with code 1 for a bad value.
        """
        with self._lock:
            accepted: dict[str, str] = {}
            for entry in parse(text):
                setting = self._loaded.table.get(entry.key)
                if setting is None or setting.inert:
                    log.warning("ignored a change by %s: %s", peer, self._why_ignored(entry.key))
                    continue
                self._check(setting, entry.value)
                accepted[setting.key] = entry.value
            if accepted:
                self._accept(accepted)
                self._log_changes(accepted, peer)
            if text:
                counter = self.version.counter + 1
                self.version = DataVersion(counter, self._now_ms())
            return bool(accepted)

    def _why_ignored(self, key: str) -> str:
        """Why a key changes nothing: it is unknown, or has no effect in this server."""
        setting = self._loaded.table.get(key)
        if setting is not None:
            return f"{setting.key} has no effect here: {setting.inert}"
        nearest = self._loaded.table.nearest(key)
        return f"unknown key {key[:_KEY_CHARS_MAX]!r}" + (
            f"; did you mean {nearest}?" if nearest else ""
        )

    def _log_changes(self, accepted: dict[str, str], peer: str) -> None:
        table, values = self._loaded.table, self._loaded.values
        for key in accepted:
            log.info("%s set %s to %s", peer, key, shown_of(table[key], values[key]))

    def _check(self, setting: Setting, text: str) -> None:
        key = setting.key
        if key in PATHS:
            raise Refused(NO_PERMISSION, "Can not update config path")
        try:
            value = setting.read(text)
        except ValueError as error:
            raise Refused(SYSTEM_ERROR, f"{key}={text}: must be {error}") from None
        if not setting.online and (setting.secret or value != self._loaded.values[key]):
            raise Refused(
                NO_PERMISSION,
                f"{key} cannot change while running; set it in the configuration file and restart",
            )

    def _accept(self, accepted: dict[str, str]) -> None:
        """Check the changes, save them, and only then change the values in memory."""
        ahead = replace(
            self._loaded,
            values=dict(self._loaded.values),
            origins=dict(self._loaded.origins),
            warnings=[],
        )
        for key, text in accepted.items():
            ahead.apply(key, text, str(self._path))
        try:
            self._check_all(ahead)
            Overrides(self._path).save(accepted)
        except SettingsError as error:
            raise Refused(SYSTEM_ERROR, str(error)) from None
        except OSError as error:
            remark = f"cannot save {self._path}: {error}"
            raise Refused(SYSTEM_ERROR, remark) from None
        self._loaded.values, self._loaded.origins = ahead.values, ahead.origins
        self._changed(self._loaded)
