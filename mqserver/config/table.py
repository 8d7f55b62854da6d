"""The definition of a setting: key, default, unit, range, help text, and origin.

Each setting is declared once, as a field of a `Group`, with `setting` or `ours`. The tables, the
frozen objects of the servers, `docs/settings.md` and the comparison with RocketMQ derive from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar, cast

from msgspec import Struct

Value = bool | int | float | str


class Secret(str):
    """A value that does not appear when the object that holds it is printed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'******'"


INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

ROCKETMQ = "RocketMQ 4.9.7"
LATER = "RocketMQ 4.9.8"
ROCKETMQ_5 = "RocketMQ 5"
UNLISTED = "RocketMQ 4.9, outside its configuration classes"
OURS = "mqstack"

T = TypeVar("T")


class Setting(Struct, frozen=True):
    """One row of a settings table. The value has the type of the default.

    about: the help text. unit: the unit of a number ("ms", "bytes", "%"). floor, ceiling: the
    allowed range, inclusive. choices: the allowed words. inert: why a key of RocketMQ has no
    effect here. online: the setting may change while the server runs. important: `-m` shows the
    setting. aliases: older spellings of the key. secret: the value is never shown. known_to: the
    product that defines the key.
    """

    key: str
    default: Value
    about: str = ""
    unit: str = ""
    floor: int = 0
    ceiling: int = INT_MAX
    choices: tuple[str, ...] = ()
    inert: str = ""
    online: bool = False
    important: bool = False
    aliases: tuple[str, ...] = ()
    secret: bool = False
    known_to: str = ROCKETMQ

    def read(self, text: str) -> Value:
        """Convert text to a value of this setting; ValueError says which values are allowed."""
        if isinstance(self.default, bool):
            return self._read_bool(text)
        if isinstance(self.default, int):
            return self._read_int(text)
        if isinstance(self.default, float):
            return float(text)
        if self.choices and text not in self.choices:
            raise ValueError(f"one of {', '.join(self.choices)}")
        return Secret(text) if self.secret and text else text

    def _read_bool(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("true or false")
        return text.lower() == "true"

    def _read_int(self, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(self.allowed()) from None
        if not self.floor <= value <= self.ceiling:
            raise ValueError(self.allowed())
        return value

    def allowed(self) -> str:
        """The allowed values in words."""
        unit = f" {self.unit}" if self.unit else ""
        return f"a whole number from {self.floor} to {self.ceiling}{unit}"


def setting(key: str, default: T, about: str, **options: Any) -> T:
    """Declare a field of a `Group`. options: see `Setting`."""
    return cast(T, Setting(key, cast(Value, default), about, **options))


def ours(key: str, default: T, about: str, **options: Any) -> T:
    """Declare a field whose key only mqstack has; no version of RocketMQ knows the key."""
    return setting(key, default, about, known_to=OURS, **options)


def inert(key: str, default: Value, why: str, **options: Any) -> Setting:
    """Declare a key that existing files may set and that has no effect; any number is accepted."""
    return Setting(key, default, inert=why, floor=-LONG_MAX, ceiling=LONG_MAX, **options)


class Group:
    """Frozen values of settings, each declared once as a field: `port: int = setting(...)`.

    The class holds the rows, and an object holds the values. A field without a row holds another
    group.
    """

    def __init__(self, **values: object) -> None:
        lost = self.rows().keys() - values.keys()
        assert not lost, f"no values for {sorted(lost)}"
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of {type(self).__name__} cannot change")

    @classmethod
    @cache
    def rows(cls) -> Mapping[str, Setting]:
        """The rows by field name; the rows of a base class come after the class's own."""
        found: dict[str, Setting] = {}
        for kind in cls.__mro__:
            for name, value in vars(kind).items():
                if isinstance(value, Setting):
                    found.setdefault(name, value)
        return found


def shown_of(setting: Setting, value: Value) -> str:
    """A setting's value as it may be shown; a secret appears as asterisks."""
    return "******" if setting.secret and value else shown(value)


def shown(value: Value) -> str:
    """A value in the form of RocketMQ's properties text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Table(Mapping[str, Setting]):
    """The settings of one server, by key, in their declared order.

    listed_by: the command that prints all keys.
    """

    def __init__(self, *rows: Setting, listed_by: str) -> None:
        self.listed_by = listed_by
        self._rows = {row.key: row for row in rows}
        self._aliases = {alias: row.key for row in self._rows.values() for alias in row.aliases}

    def __getitem__(self, key: str) -> Setting:
        return self._rows[self._aliases.get(key, key)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def nearest(self, key: str) -> str | None:
        """The known key that is spelled most like an unknown key."""
        lower = {known.lower(): known for known in self._rows}
        close = get_close_matches(key.lower(), lower, n=1, cutoff=0.75)
        return lower[close[0]] if close else None
