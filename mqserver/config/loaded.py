"""The value of every setting of one server, with its origin; errors and warnings about values."""

from __future__ import annotations

import os

from msgspec import Struct, field

from mqserver.config.table import Table, Value, shown_of

DEFAULT = "default"
AnyPath = str | os.PathLike[str]


class SettingsError(ValueError):
    """A setting cannot be used; the text names its origin, the setting and the allowed values."""


class Loaded(Struct):
    """The value of every setting, and its origin.

    warnings: problems that the operator should know but that do not stop the start.
    """

    table: Table
    values: dict[str, Value] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def is_set(self, key: str) -> bool:
        """Whether the value was set somewhere, even to the default."""
        return self.origins[key] != DEFAULT

    def lines(self, important_only: bool = False) -> list[str]:
        """`key=value` and the origin of each setting, for `-p` and `-m`."""
        return [
            f"{key}={shown_of(setting, self.values[key])}  # {self.origins[key]}"
            for key, setting in self.table.items()
            if setting.important or not important_only
        ]

    def apply(self, key: str, text: str, origin: str) -> None:
        """Set one value. Raises SettingsError for a bad value; an unknown key only warns."""
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
