"""The value of every setting of one server, and what is wrong with one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from mqserver.config.table import Table, Value, shown_of

DEFAULT = "default"
AnyPath = str | os.PathLike[str]


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
