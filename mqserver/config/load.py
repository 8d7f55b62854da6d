"""Loads settings in RocketMQ's order: defaults, environment, file, online changes, flags."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from mqcommon.java_properties import parse
from mqserver.config.loaded import DEFAULT, AnyPath, Loaded, SettingsError
from mqserver.config.overrides import apply_overrides
from mqserver.config.table import Table


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
    override: returns the file of online changes; it gets the values of all other sources.
    Raises SettingsError for a file that cannot be read, a value that cannot be used, or a flag with
    an unknown key. An unknown key of a file is only a warning, because RocketMQ ignores it.
    """
    flags = list(flags)
    _check_keys(table, flags)
    loaded = Loaded(table)
    for key, setting in table.items():
        loaded.values[key], loaded.origins[key] = setting.default, DEFAULT
    for key, text, origin in environment:
        loaded.apply(key, text, origin)
    if file is not None:
        apply_file(loaded, file)
    _apply_tls_file(_with_flags(loaded, flags), loaded)
    if override is not None:
        apply_overrides(loaded, override(_with_flags(loaded, flags)))
    for key, text, origin in flags:
        loaded.apply(key, text, origin)
    return loaded


def _check_keys(table: Table, flags: Iterable[tuple[str, str, str]]) -> None:
    """Refuse unknown keys of flags: nothing but a spelling mistake brings them."""
    for key, _, origin in flags:
        if key not in table:
            nearest = table.nearest(key)
            hint = f"did you mean {nearest}?" if nearest else f"`{table.listed_by}` lists all keys"
            raise SettingsError(f"{origin}: unknown key {key}; {hint}")


def _apply_tls_file(ahead: Loaded, loaded: Loaded) -> None:
    """Apply the file of RocketMQ's TLS properties; a file that is set explicitly must exist.

    Servers and clients may share the file, so keys without effect cause no warning here.
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
    """The settings without online changes. They say where the file of online changes is."""
    ahead = Loaded(loaded.table, dict(loaded.values), dict(loaded.origins))
    for key, text, origin in flags:
        ahead.apply(key, text, origin)
    return ahead


def apply_file(loaded: Loaded, path: AnyPath) -> None:
    """Apply a properties file, with `name:line` as the origin of each value."""
    for entry in parse(read_text(path)):
        loaded.apply(entry.key, entry.value, f"{path}:{entry.line}")


def read_text(path: AnyPath) -> str:
    """Read a properties file as UTF-8, or as Latin-1, which Java uses, if it is not UTF-8."""
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
    """Key-value pairs of one origin, in the form that `load` expects."""
    return [(key, text, origin) for key, text in items.items()]
