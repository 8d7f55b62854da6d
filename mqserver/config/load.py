"""RocketMQ's order of precedence: defaults, environment, file, saved online changes, flags."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from mqserver.config.table import Table, Value, shown_of
from mqstore.java_properties import parse

DEFAULT = "default"
AnyPath = str | os.PathLike[str]
"""Strings at the start of a server: importing pathlib takes a twentieth of it."""


class SettingsError(ValueError):
    """A setting that cannot be used; the text says where, which, and what is allowed."""


@dataclass(slots=True)
class Loaded:
    """The value of every setting, and where it came from.

    warnings: what the operator should know but need not stop for.
    """

    table: Table
    values: dict[str, Value] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def is_set(self, key: str) -> bool:
        """Somebody chose the value; it is not the default."""
        return self.origins[key] != DEFAULT

    def lines(self, important_only: bool = False) -> list[str]:
        """`key=value` and its origin, for `-p` and `-m`."""
        return [
            f"{key}={shown_of(setting, self.values[key])}  # {self.origins[key]}"
            for key, setting in self.table.items()
            if setting.important or not important_only
        ]

    def apply(self, key: str, text: str, origin: str) -> None:
        """Take one value; a bad one raises SettingsError, an unknown key only warns."""
        if key not in self.table:
            nearest = self.table.nearest(key)
            hint = f"; did you mean {nearest}?" if nearest else ""
            self.warnings.append(f"{origin}: unknown key {key}, ignored{hint}")
            return
        setting = self.table[key]
        try:
            value = setting.read(text)
        except ValueError as error:
            raise SettingsError(f"{origin}: {key}={text}: must be {error}") from None
        if setting.inert and value != setting.default:
            self.warnings.append(f"{origin}: {key} has no effect here: {setting.inert}")
        self.values[setting.key] = value
        self.origins[setting.key] = origin


def load(
    table: Table,
    *,
    file: AnyPath | None = None,
    environment: Iterable[tuple[str, str, str]] = (),
    override: Callable[[Loaded], str] | None = None,
    flags: Iterable[tuple[str, str, str]] = (),
) -> Loaded:
    """Collect the settings of one server.

    file: the operator's properties file. environment, flags: (key, value, origin) in order.
    override: tells where online changes are saved, given what is known so far.
    Raises SettingsError for a file that cannot be read or a value that cannot be used.
    """
    loaded = Loaded(table)
    for key, setting in table.items():
        loaded.values[key], loaded.origins[key] = setting.default, DEFAULT
    for key, text, origin in environment:
        loaded.apply(key, text, origin)
    if file is not None:
        apply_file(loaded, file)
    flags = list(flags)
    _apply_tls_file(_with_flags(loaded, flags), loaded)
    if override is not None:
        from mqserver.config.overrides import apply_overrides  # it needs this module

        apply_overrides(loaded, override(_with_flags(loaded, flags)))
    for key, text, origin in flags:
        loaded.apply(key, text, origin)
    return loaded


def _apply_tls_file(ahead: Loaded, loaded: Loaded) -> None:
    """The file of RocketMQ's TLS properties; one that is named must be there.

    Servers and clients may share it: what has no effect here is passed over.
    """
    key = "tls.config.file"
    path = str(ahead.values.get(key, ""))
    if key not in ahead.table or not (ahead.is_set(key) or os.path.isfile(path)):
        return
    for entry in parse(read_text(path)):
        row = loaded.table.get(entry.key)
        if row is None or not row.inert:
            loaded.apply(entry.key, entry.value, f"{path}:{entry.line}")


def _with_flags(loaded: Loaded, flags: Iterable[tuple[str, str, str]]) -> Loaded:
    """What the settings would be without online changes: the store's place is never one."""
    ahead = Loaded(loaded.table, dict(loaded.values), dict(loaded.origins))
    for key, text, origin in flags:
        ahead.apply(key, text, origin)
    return ahead


def apply_file(loaded: Loaded, path: AnyPath) -> None:
    """Apply a properties file, with `name:line` as the origin of each value."""
    for entry in parse(read_text(path)):
        loaded.apply(entry.key, entry.value, f"{path}:{entry.line}")


def read_text(path: AnyPath) -> str:
    """A properties file as text: UTF-8, else Latin-1 as Java reads it."""
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def pairs(items: Mapping[str, str], origin: str) -> list[tuple[str, str, str]]:
    """Key-value pairs of one origin, in the shape `load` takes."""
    return [(key, text, origin) for key, text in items.items()]
